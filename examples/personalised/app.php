<?php

// The application as a FastCGI process: the server starts several of them and sends each user to
// the same one.

require __DIR__.'/src/Application.php';
require __DIR__.'/src/FastCgi.php';

Personalised\FastCgi::serve(Personalised\Application::fromEnvironment()->answer(...));
