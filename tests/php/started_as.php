<?php
echo getenv('STARTED_AS');
