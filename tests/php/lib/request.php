<?php
echo 'included ', json_encode($_REQUEST);
