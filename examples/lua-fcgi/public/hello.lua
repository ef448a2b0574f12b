local name = (os.getenv("QUERY_STRING") or ""):match("name=(%w+)") or "you"

-- What is to stay stands in the globals that all scripts share: each thread has its own.
_G.greeted = (_G.greeted or 0) + 1

print("Content-Type: text/plain\r\n\r\n")
print("Lua behind ", os.getenv("SERVER_SOFTWARE"):match("%a+"), " says hello to ", name, "\n")
