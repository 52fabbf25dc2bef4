def run(args, results):
    return {"sum": args["a"] + }
