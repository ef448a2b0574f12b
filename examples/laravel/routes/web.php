<?php

use Illuminate\Support\Facades\Route;

Route::get('/', [App\Pages::class, 'page']);
Route::get('/login', [App\Pages::class, 'login']);
Route::post('/login', [App\Pages::class, 'remember']);
Route::get('/error', [App\Pages::class, 'error']);
Route::get('/fatal', [App\Pages::class, 'fatal']);
