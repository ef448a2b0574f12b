<?php

require 'libphp-phpmailer/autoload.php';

$mail = new PHPMailer\PHPMailer\PHPMailer(true);
$mail->setFrom('one@example.org');
$mail->addAddress('two@example.org');
$mail->Subject = 'A letter';
$mail->msgHTML('<h1>A letter</h1>' . str_repeat('<p>A line of it.</p>', 100));
$mail->addStringAttachment(str_repeat('data', 5000), 'data.bin');
$mail->preSend();
echo strlen($mail->getSentMIMEMessage()) > 20_000 ? 'a letter' : 'nothing';
