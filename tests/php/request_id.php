<?php
error_log('logged');
echo Tokamak\Context::id();
