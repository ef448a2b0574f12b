<?php

// A letter; the server gives it its subject for a name.

use PHPMailer\PHPMailer\PHPMailer;

$port = (int) getenv('SMTP');

return [
    'phpmailer' => static function (string $token) use ($port): string {
        $letter = new PHPMailer(true);
        $letter->isSMTP();
        [$letter->Host, $letter->Port] = ['127.0.0.1', $port];
        $letter->setFrom('from@example.org');
        $letter->addAddress('to@example.org');
        $letter->Subject = $token;
        $letter->Body = "Hello.\n";
        $letter->send();

        return $letter->getSMTPInstance()->getLastTransactionID();
    },
];
