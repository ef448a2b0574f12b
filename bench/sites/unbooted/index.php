<?php

echo 'empty';
