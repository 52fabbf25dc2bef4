KEY = "sk-proj-Z9y8X7w6V5u4T3s2R1q0"
