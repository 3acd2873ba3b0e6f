package identity

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"unicode/utf8"

	"connectrpc.com/connect"
	"golang.org/x/crypto/argon2"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
)

// Cost of a hash: 19 MiB and two passes in one thread, as OWASP recommends
// for argon2id.
const (
	hashMemory  = 19 << 10 // KiB
	hashPasses  = 2
	hashThreads = 1
	saltBytes   = 16
	hashBytes   = 32
)

// Rules for passwords.
const (
	// Rules for passwords.
	passwordMin = 12
	// passwordMax bounds the bytes of a password, and so the work of hashing
	// it.
	passwordMax = 1024
)

// hasher computes and verifies password hashes, as many at once as the memory
// allows.
type hasher struct {
	concurrencyLimit
	// dummyHash is verified when there is no user, so that the time reveals
	// nothing.
	dummyHash string
}

// newHasher returns a hasher with two to four concurrent hashes.
func newHasher(ctx context.Context) (*hasher, error) {
	h := &hasher{concurrencyLimit: newConcurrencyLimit(min(max(runtime.GOMAXPROCS(0), 2), 4))}
	dummyHash, err := h.hash(ctx, secret.New(rand.Text()))
	h.dummyHash = dummyHash
	return h, err
}

// hash encodes a password for the store.
func (h *hasher) hash(ctx context.Context, password secret.Text) (string, error) {
	done, err := h.acquire(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	// Each hash has its own salt, so equal passwords have different hashes.
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // never fails, as its documentation says
	own := encodedHash{memory: hashMemory, passes: hashPasses, threads: hashThreads, salt: salt}
	own.sum = own.of(password, hashBytes)
	return own.String(), nil
}

// check verifies a password against an encoded hash. Without a hash it takes
// the same time and returns false.
func (h *hasher) check(ctx context.Context, encoded string, password secret.Text) (bool, error) {
	// The result of the dummy comparison is discarded, after the same work.
	real := encoded != ""
	if !real {
		encoded = h.dummyHash
	}
	stored, err := parseHash(encoded)
	if err != nil {
		return false, err
	}
	done, err := h.acquire(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	sum := stored.of(password, len(stored.sum))
	return subtle.ConstantTimeCompare(sum, stored.sum) == 1 && real, nil
}

// encodedHash holds the parts of $argon2id$v=19$m=19456,t=2,p=1$salt$sum (PHC
// string format).
type encodedHash struct {
	memory, passes uint32
	threads        uint8
	salt, sum      []byte
}

// of computes the hash of a password with these parameters.
func (e encodedHash) of(password secret.Text, size int) []byte {
	return argon2.IDKey([]byte(password.Reveal()), e.salt, e.passes, e.memory, e.threads, uint32(size))
}

// String encodes the hash in PHC string format.
func (e encodedHash) String() string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, e.memory, e.passes, e.threads, b64.EncodeToString(e.salt), b64.EncodeToString(e.sum))
}

// weak reports whether the hash is cheaper than a new one; it is renewed at
// the next sign-in.
func (e encodedHash) weak() bool { return e.memory < hashMemory || e.passes < hashPasses }

var errHashForm = errors.New("the stored password hash has an unknown format")

// parseHash decodes a hash. The costs are bounded: a manipulated row must not
// exhaust memory.
func parseHash(text string) (encodedHash, error) {
	parts := strings.Split(text, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != "v="+strconv.Itoa(argon2.Version) {
		return encodedHash{}, errHashForm
	}
	costs := strings.Split(parts[3], ",")
	if len(costs) != 3 {
		return encodedHash{}, errHashForm
	}
	memory, okM := cost(costs[0], "m=", 256<<10)
	passes, okT := cost(costs[1], "t=", 16)
	threads, okP := cost(costs[2], "p=", 16)
	salt, errSalt := base64.RawStdEncoding.Strict().DecodeString(parts[4])
	sum, errSum := base64.RawStdEncoding.Strict().DecodeString(parts[5])
	if !okM || !okT || !okP || errSalt != nil || errSum != nil || len(salt) < 8 || len(salt) > 64 || len(sum) < 16 || len(sum) > 64 {
		return encodedHash{}, errHashForm
	}
	return encodedHash{memory: memory, passes: passes, threads: uint8(threads), salt: salt, sum: sum}, nil
}

// cost parses a parameter such as t=2.
func cost(text, name string, most uint32) (uint32, bool) {
	digits, ok := strings.CutPrefix(text, name)
	if !ok || digits == "" || digits[0] < '1' || digits[0] > '9' {
		return 0, false
	}
	value, err := strconv.ParseUint(digits, 10, 32)
	return uint32(value), err == nil && uint32(value) <= most
}

// checkNewPassword validates a password that a user chose.
func checkNewPassword(password secret.Text, email string) error {
	chosen := password.Reveal()
	local, _, _ := strings.Cut(email, "@")
	switch {
	case !utf8.ValidString(chosen):
		return invalid("the password is not text in UTF-8")
	case utf8.RuneCountInString(chosen) < passwordMin:
		return invalid("the password has fewer than %d characters", passwordMin)
	case len(chosen) > passwordMax:
		return invalid("the password has more than %d bytes", passwordMax)
	case strings.EqualFold(strings.TrimSpace(chosen), email), strings.EqualFold(strings.TrimSpace(chosen), local):
		return invalid("the password must not be the email")
	}
	// A minimum of distinct characters rejects repetitions such as
	// aaaaaaaaaaaa.
	distinct := make(map[rune]bool)
	for _, r := range chosen {
		distinct[r] = true
	}
	if len(distinct) < 4 {
		return invalid("the password has fewer than 4 different characters")
	}
	return nil
}

// requirePassword aborts if the password was changed since it was checked.
func requirePassword(user *store.User, checked string) error {
	if user.PasswordHash != checked {
		return &DeniedError{Code: connect.CodeAborted, Reason: "the password was changed concurrently; start again"}
	}
	return nil
}
