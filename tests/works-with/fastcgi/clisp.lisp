;; CLISP's module for FastCGI, on descriptor 0.
(require "fastcgi")
(loop while (fastcgi:accept) do
  (fastcgi:out "Content-Type: text/plain" #\Newline #\Newline)
  (if (equal (fastcgi:getenv "PATH_INFO") "/echo")
      (fastcgi:out (fastcgi:slurp-stdin))
      (loop for (name . value) in (fastcgi:getenv) do
        (fastcgi:out name "=" value #\Newline)))
  (fastcgi:finish))
