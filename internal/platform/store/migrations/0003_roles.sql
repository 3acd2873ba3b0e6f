-- The role user of earlier versions is the operator.
UPDATE users SET role = 'operator' WHERE role = 'user';
