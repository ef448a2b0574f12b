(* Ocamlnet's netcgi2, on a socket of its own. *)
let answer (cgi : Netcgi.cgi) =
  let environment = cgi#environment in
  cgi#set_header ~content_type:"text/plain" ();
  let out = cgi#out_channel in
  if environment#cgi_path_info = "/echo" then
    out#output_string (try cgi#argument_value "BODY" with Not_found -> "")
  else begin
    let write (name, value) = out#output_string (name ^ "=" ^ value ^ "\n") in
    List.iter write environment#cgi_properties;
    write ("PATH_INFO", environment#cgi_path_info);
    write ("QUERY_STRING", environment#cgi_query_string);
    write ("HTTP_X_LONG", environment#input_header_field ~default:"" "X-Long")
  end;
  out#commit_work ()

let () =
  ignore (Unix.umask 0);
  let config =
    { Netcgi.default_config with
      Netcgi.permitted_input_content_types = [ "text/plain" ] }
  in
  Netcgi_fcgi.run ~config
    ~output_type:(`Transactional (fun _ out -> new Netchannels.buffered_trans_channel out))
    ~sockaddr:(Unix.ADDR_UNIX Sys.argv.(1))
    (fun cgi -> answer (cgi :> Netcgi.cgi))
