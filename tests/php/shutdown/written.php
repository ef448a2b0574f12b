<?php
// A file of the state directory, decompressed where it is compressed.
readgzfile(getenv('STATE') . '/' . basename($_GET['file']));
