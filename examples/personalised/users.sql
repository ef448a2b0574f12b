-- psql -v users=100000 -f users.sql DATABASE: that many users, each with a record of attributes that is 100 bytes long.
CREATE TABLE users (name text PRIMARY KEY, salt text NOT NULL, password text NOT NULL);
CREATE TABLE attributes (
    name text PRIMARY KEY REFERENCES users,
    address char(20) NOT NULL,
    town char(20) NOT NULL,
    team char(20) NOT NULL,
    colour char(20) NOT NULL,
    greeting char(20) NOT NULL
);
-- The password of "user7" is "secret7".
INSERT INTO users
SELECT 'user' || n, 'salt' || n, encode(sha256(('salt' || n || 'secret' || n)::bytea), 'hex')
FROM generate_series(1, :users) AS n;
INSERT INTO attributes
SELECT 'user' || n, n || ' High Street', 'Town ' || n % 1000, 'Team ' || n % 30, 'colour ' || n % 7, 'Good day, ' || n
FROM generate_series(1, :users) AS n;
ANALYZE;
