%% Debian: erlang-base erlang-inets erlang-ssl erlang-public-key erlang-crypto erlang-asn1
main([Use, Url | More]) ->
    {ok, _} = application:ensure_all_started(inets),
    {ok, _} = application:ensure_all_started(ssl),
    case Use of
        "page" -> ask(get, {Url, []});
        "kept" -> ask(get, {Url, []}), ask(get, {hd(More), []});
        "later" -> ask(get, {Url, []}), io:get_line(""), ask(get, {hd(More), []});
        "range" ->
            {ok, Part} = file:read_file(hd(More)),
            write(Part),
            Range = "bytes=" ++ integer_to_list(byte_size(Part)) ++ "-",
            ask(get, {Url, [{"range", Range}]});
        "upload" ->
            {ok, Body} = file:read_file(hd(More)),
            ask(post, {Url, [], "text/plain", Body});
        _ -> halt(64)
    end.

ask(Method, Request) ->
    Match = public_key:pkix_verify_hostname_match_fun(https),
    Ssl = [{verify, verify_peer}, {cacertfile, os:getenv("AUTHORITY")}, {depth, 3},
           {customize_hostname_check, [{match_fun, Match}]}],
    case httpc:request(Method, Request, [{ssl, Ssl}], [{body_format, binary}]) of
        {ok, {_, _, Body}} -> write(Body);
        {error, Why} -> io:format(standard_error, "~0p~n", [Why]), halt(1)
    end.

write(Bytes) -> ok = file:write(standard_io, Bytes).
