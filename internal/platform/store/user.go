package store

import (
	"context"
	"strings"
	"time"
)

// Role is what a user may do in an account.
type Role string

// The roles.
const (
	RoleAdmin Role = "admin"
	RoleUser  Role = "user"
)

// User is somebody who signs in. An email is there once in the platform, whatever
// its case.
type User struct {
	ID, AccountID, Email, Name string
	Role                       Role
	PasswordHash               string // encoded argon2id; empty: no password
	MustChangePassword         bool
	Disabled                   bool
	// Subject is who this is for the identity provider, as "issuer|sub". Empty for
	// those who sign in with a password.
	Subject                 string
	CreatedAt, LastSignInAt time.Time
}

func (u User) administers() bool { return u.Role == RoleAdmin && !u.Disabled }

const userColumns = `id, account_id, email, name, role, password_hash, must_change_password, disabled, subject, created_at, last_sign_in_at`

func scanUser(r row) (u User, err error) {
	return u, r.Scan(&u.ID, &u.AccountID, &u.Email, &u.Name, &u.Role, &u.PasswordHash, &u.MustChangePassword, &u.Disabled,
		&u.Subject, timeColumn{&u.CreatedAt}, timeColumn{&u.LastSignInAt})
}

// CreateUser stores a user. It gets an ID and a time if it has none.
func (s *Store) CreateUser(ctx context.Context, user User) (User, error) {
	if err := checkUser(user); err != nil {
		return User{}, err
	}
	s.identify(&user.ID, &user.CreatedAt)
	err := s.write(ctx, func(c *call) error {
		_, err := c.exec(`INSERT INTO users (`+userColumns+`, email_folded) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
			user.ID, user.AccountID, user.Email, user.Name, string(user.Role), user.PasswordHash, user.MustChangePassword, user.Disabled,
			user.Subject, micros(user.CreatedAt), micros(user.LastSignInAt), folded(user.Email))
		return userConflict(err, user)
	})
	return user, err
}

func checkUser(user User) error {
	if strings.TrimSpace(user.Email) == "" {
		return invalid("a user needs an email")
	}
	if user.Role != RoleAdmin && user.Role != RoleUser {
		return invalid("the role %q must be %s or %s", user.Role, RoleAdmin, RoleUser)
	}
	return nil
}

func userConflict(err error, user User) error {
	return orConflict(err, "a user with the email %s, or with the same identity", user.Email)
}

// User finds a user of an account.
func (s *Store) User(ctx context.Context, accountID, id string) (User, error) {
	return s.user(ctx, "account_id = $1 AND id = $2", accountID, id)
}

// UserByID finds a user of any account.
func (s *Store) UserByID(ctx context.Context, id string) (User, error) {
	return s.user(ctx, "id = $1", id)
}

// UserByEmail finds a user by the email, whatever its case.
func (s *Store) UserByEmail(ctx context.Context, email string) (User, error) {
	return s.user(ctx, "email_folded = $1", folded(email))
}

// UserBySubject finds a user by what the identity provider calls them.
func (s *Store) UserBySubject(ctx context.Context, subject string) (User, error) {
	if subject == "" {
		return User{}, ErrNotFound // those with a password have none
	}
	return s.user(ctx, "subject = $1 AND subject <> ''", subject)
}

func (s *Store) user(ctx context.Context, where string, args ...any) (user User, err error) {
	err = s.read(ctx, func(c *call) error {
		user, err = queryOne(c, scanUser, "SELECT "+userColumns+" FROM users WHERE "+where, args...)
		return err
	})
	return user, err
}

// Users lists the users of an account by email.
func (s *Store) Users(ctx context.Context, accountID string, page Page) (users []User, next string, err error) {
	list := newListing("users", accountID)
	after, err := list.after(page.Token, 1)
	if err != nil {
		return nil, "", err
	}
	var where condition
	where.add("account_id = ?", accountID)
	if after != nil {
		where.add("email_folded > ?", after[0])
	}
	where.args = append(where.args, page.limit()+1)
	err = s.read(ctx, func(c *call) error {
		users, err = queryAll(c, scanUser, "SELECT "+userColumns+" FROM users"+where.where()+" ORDER BY email_folded"+where.limit(), where.args...)
		return err
	})
	users, next = cut(users, page.limit(), func(last User) string { return list.token(folded(last.Email)) })
	return users, next, err
}

// UpdateUser stores everything of a user but the ID, account and time of creation.
// It is ErrLastAdmin if the account would have no admin any more.
func (s *Store) UpdateUser(ctx context.Context, user User) error {
	if err := checkUser(user); err != nil {
		return err
	}
	return s.write(ctx, func(c *call) error {
		before, err := queryOne(c, scanUser, "SELECT "+userColumns+" FROM users WHERE account_id = $1 AND id = $2", user.AccountID, user.ID)
		if err != nil {
			return err
		}
		if before.administers() && !user.administers() {
			if err := otherAdmin(c, before); err != nil {
				return err
			}
		}
		_, err = c.exec(`UPDATE users SET email = $1, email_folded = $2, name = $3, role = $4, password_hash = $5,
			must_change_password = $6, disabled = $7, subject = $8, last_sign_in_at = $9 WHERE account_id = $10 AND id = $11`,
			user.Email, folded(user.Email), user.Name, string(user.Role), user.PasswordHash,
			user.MustChangePassword, user.Disabled, user.Subject, micros(user.LastSignInAt), user.AccountID, user.ID)
		return userConflict(err, user)
	})
}

// otherAdmin sees that somebody else administers the account.
func otherAdmin(c *call, user User) error {
	others, err := queryOne(c, scanNumber, "SELECT count(*) FROM users WHERE account_id = $1 AND id <> $2 AND role = $3 AND NOT disabled",
		user.AccountID, user.ID, string(RoleAdmin))
	if err == nil && others == 0 {
		err = ErrLastAdmin
	}
	return err
}

// DeleteUser removes a user with their sessions and keys. It is ErrLastAdmin for
// the last admin of an account.
func (s *Store) DeleteUser(ctx context.Context, accountID, id string) error {
	return s.write(ctx, func(c *call) error {
		user, err := queryOne(c, scanUser, "SELECT "+userColumns+" FROM users WHERE account_id = $1 AND id = $2", accountID, id)
		if err != nil {
			return err
		}
		if user.administers() {
			if err := otherAdmin(c, user); err != nil {
				return err
			}
		}
		return orNotFound(c.exec("DELETE FROM users WHERE account_id = $1 AND id = $2", accountID, id))
	})
}
