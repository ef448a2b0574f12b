# A FastCGI application in Ruby, with the library fcgi (Debian's ruby-fcgi): one process, one request at a time, on
# descriptor 0, where who starts it puts a listening socket.
require "fcgi"

count = 0
FCGI.each_request do |request|
  kind, status = "text/plain", nil
  body = case request.env["PATH_INFO"]
         when "/env" then request.env.sort.map { |name, value| "#{name}=#{value}\n" }.join
         when "/echo"
           kind = "application/octet-stream"
           request.in.read || ""
         when "/count" then "#{count += 1}\n"
         when "/complain"
           request.err.print "something is wrong\n"
           "said\n"
         else
           status = "Status: 404 Not Found\r\n"
           "nothing here\n"
         end
  request.out.print "#{status}Content-Type: #{kind}\r\n\r\n", body
  request.finish
end
