<?php

require __DIR__.'/ask.php';

answer();
