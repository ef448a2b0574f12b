<?php
// Forgets to ask for requests.
echo 'no loop here';
