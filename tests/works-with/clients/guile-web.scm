;; Debian: guile-3.0 guile-gnutls guile-3.0-libs
(use-modules (web client) (web response) (web uri) (ice-9 binary-ports) (ice-9 match)
             (ice-9 receive) (ice-9 rdelim) (rnrs bytevectors))

;; All files of the folder are trusted.
(define trusted (mkdtemp "trusted-XXXXXX"))
(copy-file (getenv "AUTHORITY") (string-append trusted "/authority.pem"))
(x509-certificate-directory trusted)

(define (content name) (call-with-input-file name get-bytevector-all #:binary #t))

(define (write-out body)
  (if (string? body)
      (display body)
      (put-bytevector (current-output-port) body))
  (force-output))

(define* (ask url #:key (headers '()) (port (open-socket-for-uri url)) (keep #f))
  (receive (response body)
      (http-get url #:port port #:keep-alive? keep #:headers headers #:decode-body? #f)
    (write-out body)))

(match (cdr (command-line))
  (("page" url) (ask url))
  (("kept" url other)
   (let ((port (open-socket-for-uri url)))
     (ask url #:port port #:keep #t)
     (ask other #:port port)))
  (("range" url name)
   (let ((part (content name)))
     (write-out part)
     (ask url #:headers `((range . (bytes (,(bytevector-length part) . #f)))))))
  (("upload" url name)
   (receive (response body)
       (http-post url #:body (content name) #:headers '((content-type . (text/plain))))
     (write-out body)))
  (_ (exit 64)))
