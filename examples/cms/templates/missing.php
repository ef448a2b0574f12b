<h1>There is no such page</h1>
