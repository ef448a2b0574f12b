<?php

// Outside of the group `web`: without a session.

use Illuminate\Support\Facades\Route;

Route::get('/empty', [App\Pages::class, 'empty']);
for ($i = 0; $i < 200; $i++) {
    Route::get("/section$i/{any}", [App\Pages::class, 'section']);
}
