<?php
// How far the last upload has come, as the session extension counts it.
session_id('upload');
session_start();
echo json_encode($_SESSION['upload_progress_mine'] ?? null);
