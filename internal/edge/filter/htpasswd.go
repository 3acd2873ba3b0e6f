package filter

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/crypto/bcrypt"
)

// maxCost bounds the cost of a bcrypt hash: at 14 one check takes about a second of
// a processor, which any client can cause.
const maxCost = 14

// passwordHash is the hash of a password, from a line of an htpasswd file.
type passwordHash interface {
	// fits reports whether it is the hash of password. How long that takes does
	// not depend on where they differ.
	fits(password []byte) bool
}

// credential is a line of an htpasswd file.
type credential struct {
	user string
	hash passwordHash
}

// parseHtpasswd reads the lines of an htpasswd file: user:hash, with hashes of
// bcrypt, apr1 and {SHA}. Empty lines and lines that start with # are skipped.
// Anything else fails the whole file: skipping a line silently could lock a user
// out or let a removed one in. Errors name lines and never quote them, because
// they are secrets.
func parseHtpasswd(text string) ([]credential, error) {
	var credentials []credential
	lines := make(map[string]int)
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		line = strings.Trim(line, " \t\r")
		if line == "" || line[0] == '#' {
			continue
		}
		user, rest, found := strings.Cut(line, ":")
		if !found || user == "" {
			return nil, fmt.Errorf("line %d is not user:hash; make it with htpasswd -B", number)
		}
		if strings.ContainsFunc(user, unicode.IsControl) {
			return nil, fmt.Errorf("line %d has a control character in the user's name; remove it", number)
		}
		if first, twice := lines[user]; twice {
			return nil, fmt.Errorf("line %d has the same user as line %d; remove one of them", number, first)
		}
		lines[user] = number
		// Programs differ in what may follow a second colon; none reads it.
		text, _, _ := strings.Cut(rest, ":")
		hash, err := parseHash(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		credentials = append(credentials, credential{user: user, hash: hash})
	}
	if len(credentials) == 0 {
		return nil, errors.New("there are no users, so every request would be refused; give the lines of an htpasswd file")
	}
	return credentials, nil
}

// parseHash recognises the kind of a hash by its prefix.
func parseHash(text string) (passwordHash, error) {
	switch {
	case strings.HasPrefix(text, "$2a$"), strings.HasPrefix(text, "$2b$"), strings.HasPrefix(text, "$2y$"):
		return parseBcrypt(text)
	case strings.HasPrefix(text, apr1Magic):
		return parseApr1(text)
	case strings.HasPrefix(text, "{SHA}"):
		sum, err := base64.StdEncoding.Strict().DecodeString(text[len("{SHA}"):])
		if err != nil || len(sum) != sha1.Size {
			return nil, errors.New("the {SHA} hash is cut off or damaged; make the line again with htpasswd -B")
		}
		return shaHash(sum), nil
	}
	return nil, errors.New("the password is not hashed with bcrypt, apr1 or {SHA}; make the line with htpasswd -B")
}

// hashDigits are the digits of bcrypt and apr1, in the order of apr1.
const hashDigits = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// onlyDigits reports whether a text has the digits of these hashes only.
func onlyDigits(text string) bool { return strings.Trim(text, hashDigits) == "" }

// bcryptHash is the only kind that is recommended.
type bcryptHash []byte

// parseBcrypt refuses damaged hashes here: the library would refuse every password
// later, and the mistake would look like a wrong password.
func parseBcrypt(text string) (passwordHash, error) {
	const head, size = len("$2y$10$"), 60
	cost, err := bcrypt.Cost([]byte(text))
	if err != nil || len(text) != size || !onlyDigits(text[head:]) {
		return nil, errors.New("the bcrypt hash is cut off or damaged; make the line again with htpasswd -B")
	}
	if cost > maxCost {
		return nil, fmt.Errorf("the bcrypt hash has cost %d, and each check would take seconds; make it with cost %d at most", cost, maxCost)
	}
	return bcryptHash(text), nil
}

func (h bcryptHash) fits(password []byte) bool {
	return bcrypt.CompareHashAndPassword(h, password) == nil
}

// shaHash is an unsalted SHA-1, which old files have.
type shaHash []byte

func (h shaHash) fits(password []byte) bool {
	sum := sha1.Sum(password)
	return subtle.ConstantTimeCompare(sum[:], h) == 1
}

const apr1Magic = "$apr1$"

// apr1Hash is Apache's variant of the MD5 hash of FreeBSD: a thousand rounds.
type apr1Hash struct{ salt, sum string }

func parseApr1(text string) (passwordHash, error) {
	salt, sum, found := strings.Cut(text[len(apr1Magic):], "$")
	if !found || len(salt) > 8 || !onlyDigits(salt) || len(sum) != 22 || !onlyDigits(sum) {
		return nil, errors.New("the apr1 hash is cut off or damaged; make the line again with htpasswd -B")
	}
	return apr1Hash{salt: salt, sum: sum}, nil
}

func (h apr1Hash) fits(password []byte) bool {
	return subtle.ConstantTimeCompare(apr1(password, h.salt), []byte(h.sum)) == 1
}

// apr1 computes the hash of a password, without magic and salt.
func apr1(password []byte, salt string) []byte {
	inner := md5.Sum(join(password, []byte(salt), password))
	text := join(password, []byte(apr1Magic), []byte(salt))
	for left := len(password); left > 0; left -= md5.Size {
		text = append(text, inner[:min(left, md5.Size)]...)
	}
	for bits := len(password); bits > 0; bits >>= 1 {
		if bits&1 != 0 {
			text = append(text, 0)
		} else {
			text = append(text, password[0])
		}
	}
	sum := md5.Sum(text)
	for round := range 1000 {
		text = text[:0]
		odd := round&1 != 0
		text = appendOne(text, odd, password, sum[:])
		if round%3 != 0 {
			text = append(text, salt...)
		}
		if round%7 != 0 {
			text = append(text, password...)
		}
		text = appendOne(text, !odd, password, sum[:])
		sum = md5.Sum(text)
	}
	return apr1Digits(sum)
}

// appendOne appends the first of two when the condition holds, else the second.
func appendOne(dst []byte, condition bool, first, second []byte) []byte {
	if condition {
		return append(dst, first...)
	}
	return append(dst, second...)
}

// apr1Digits encodes a sum in the byte order of apr1.
func apr1Digits(sum [md5.Size]byte) []byte {
	out := make([]byte, 0, 22)
	write := func(bits uint32, digits int) {
		for range digits {
			out = append(out, hashDigits[bits&63])
			bits >>= 6
		}
	}
	for i := range 5 {
		last := 12 + i
		if last == 16 {
			last = 5
		}
		write(uint32(sum[i])<<16|uint32(sum[i+6])<<8|uint32(sum[last]), 4)
	}
	write(uint32(sum[11]), 2)
	return out
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
