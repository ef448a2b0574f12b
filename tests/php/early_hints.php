<?php
// An interim response at once, the final one later, with the header fields that are left.
header('Link: </style.css>; rel=preload; as=style');
header('X-Hint-Only: 1');
$result = headers_send(103);
usleep(400_000);
header('X-Final: 1');
header_remove('X-Hint-Only');
echo 'final ', http_response_code(), ' ', get_debug_type($result);
