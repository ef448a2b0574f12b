-- The empty endpoint, as a program behind FastCGI.
print("Content-Type: application/json\r\n\r\n", '{"errno":0,"errmsg":"success","data":"e"}')
