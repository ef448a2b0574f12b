<?php
// Named by auto_append_file.
echo ' appended';
