import importlib.util, json, os, sys

folder, file, entrypoint = sys.argv[1:4]
code = os.path.join(folder, "code")
result_path = os.path.join(folder, "output.json")
fault_path = os.path.join(folder, "fault.txt")
for path in (result_path, fault_path):
    if os.path.exists(path):
        os.remove(path)


def refuse(message):
    with open(fault_path, "w", encoding="utf-8") as out:
        out.write(message)
    sys.exit(0)


with open(os.path.join(folder, "input.json"), encoding="utf-8") as source:
    given = json.load(source)
path = os.path.join(code, file)
sys.path[0] = os.path.dirname(path)
if sys.path[0] != code:
    sys.path.insert(1, code)
name = os.path.splitext(os.path.basename(file))[0]
spec = importlib.util.spec_from_file_location(name, path)
module = importlib.util.module_from_spec(spec)
sys.modules[name] = module
spec.loader.exec_module(module)
function = getattr(module, entrypoint, None)
if not callable(function):
    refuse(f"{file} has no function `{entrypoint}`")
result = function(given)
try:
    text = json.dumps(result, allow_nan=False)
except (TypeError, ValueError, RecursionError) as error:
    refuse(f"the result is no JSON: {error}")
with open(result_path + ".part", "w", encoding="utf-8") as out:
    out.write(text)
os.replace(result_path + ".part", result_path)
