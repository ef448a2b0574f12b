<?php

// The same application in classic mode: everything anew for each request.

require __DIR__.'/../src/Application.php';
require __DIR__.'/../src/send.php';

Personalised\send(Personalised\Application::fromEnvironment()->answer($_SERVER));
