package filter

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"hash/maphash"
	"strings"
	"sync/atomic"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/route"
)

const (
	// maxCredentials bounds user and password together.
	maxCredentials = 1024
	// maxChecking bounds how many requests of one filter wait for a password
	// check. The others get 503 at once.
	maxChecking = 32
	// defaultRealm is the realm of a policy without one.
	defaultRealm = "Restricted"
)

// basicAuth checks the password of a user. A check is slow on purpose, so that
// a stolen file is of little use; for each user the digest of the password that
// passed is cached, and sending the same again is quick. The cache takes one digest
// per user, and failed attempts cannot evict it.
//
// An unknown name is checked against the hash of a user, always the same for the
// same name, and then refused. So the time to the response does not reveal which
// names exist.
type basicAuth struct {
	accounts map[string]*account
	list     []*account
	// seed chooses the account that an unknown name is checked against.
	seed maphash.Seed
	// secret makes the digests of this filter worthless elsewhere.
	secret [sha256.Size]byte
	// slots is the semaphore of Counters.passwords.
	slots    chan struct{}
	checking atomic.Int32
	denied   *LocalResponse
	busy     *LocalResponse
}

// account is a user of the htpasswd file.
type account struct {
	name string
	hash passwordHash
	// edits pass the user on to the backend.
	edits []h1.Edit
	// proven is the digest of the password that passed last.
	proven atomic.Pointer[digest]
}

// digest is a keyed hash of a user and a password.
type digest [sha256.Size]byte

// newBasicAuth parses the users once. A change of the policy starts with an empty
// cache of digests, because the secret is new.
func newBasicAuth(a *route.BasicAuth, c *Counters) (*basicAuth, error) {
	users, err := parseHtpasswd(a.Users.Reveal())
	if err != nil {
		return nil, invalid("users", "%v", err)
	}
	f := &basicAuth{accounts: make(map[string]*account, len(users)), seed: maphash.MakeSeed(), slots: c.passwords}
	for _, user := range users {
		entry := &account{name: user.user, hash: user.hash}
		if entry.edits, err = userEdits(a, user.user); err != nil {
			return nil, err
		}
		f.accounts[user.user] = entry
		f.list = append(f.list, entry)
	}
	if _, err := rand.Read(f.secret[:]); err != nil {
		return nil, err
	}
	realm := cmp.Or(a.Realm, defaultRealm)
	realm = strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(realm)
	challenge, err := h1.SetField("WWW-Authenticate", `Basic realm="`+realm+`", charset="UTF-8"`)
	if err != nil {
		return nil, invalid("realm", "%v", err)
	}
	f.denied = &LocalResponse{Status: 401, Reason: "Unauthorized", Edits: []h1.Edit{challenge}}
	refusal, err := newRetryAfterResponse(503, "PasswordChecksBusy")
	f.busy = refusal.soon()
	return f, err
}

// userEdits removes the password and names the user. Setting the header removes
// what the client sent under that name, in any spelling.
func userEdits(a *route.BasicAuth, user string) ([]h1.Edit, error) {
	var edits []h1.Edit
	if !a.KeepAuthorization {
		edit, err := h1.RemoveField("Authorization")
		if err != nil {
			return nil, err
		}
		edits = append(edits, edit)
	}
	if a.UserHeader != "" {
		edit, err := h1.SetField(a.UserHeader, user)
		if err != nil {
			return nil, invalid("userHeader", "%v", err)
		}
		edits = append(edits, edit)
	}
	return edits, nil
}

// Slow implements [SlowFilter]: hashes of passwords take long on purpose.
func (f *basicAuth) Slow() {}

// Request implements [Filter].
func (f *basicAuth) Request(x *Exchange) *LocalResponse {
	var space [maxCredentials]byte
	user, password, ok := basicCredentials(x.Head, &space)
	if !ok {
		return f.denied
	}
	// The decoy is chosen for users too, so that it takes no time of its own.
	found := f.list[maphash.Bytes(f.seed, user)%uint64(len(f.list))]
	own, known := f.accounts[string(user)]
	if known {
		found = own
	}
	sum := f.digest(user, password)
	proven := found.proven.Load()
	// The digest has the name in it, so a decoy's never fits.
	if proven == nil || subtle.ConstantTimeCompare(proven[:], sum[:]) != 1 {
		// A copy, so that the quick way needs no memory.
		fits, busy := f.check(found.hash, bytes.Clone(password))
		if busy {
			return f.busy
		}
		if !fits || !known {
			return f.denied
		}
		remembered := sum
		found.proven.Store(&remembered)
	}
	x.User = found.name
	x.RequestEdits = append(x.RequestEdits, found.edits...)
	return nil
}

// check compares a password with a hash, once it has a slot. The number of waiters
// and the cost of each hash are bounded, so the wait is too.
func (f *basicAuth) check(hash passwordHash, password []byte) (fits, busy bool) {
	defer f.checking.Add(-1)
	if f.checking.Add(1) > maxChecking {
		return false, true
	}
	f.slots <- struct{}{}
	defer func() { <-f.slots }()
	return hash.fits(password), false
}

// digest is a keyed hash of user and password. The length of the name is part
// of it: "a" with password "bc" is not "ab" with password "c".
func (f *basicAuth) digest(user, password []byte) digest {
	var space [sha256.Size + 8 + maxCredentials]byte
	text := append(space[:0], f.secret[:]...)
	text = binary.LittleEndian.AppendUint64(text, uint64(len(user)))
	text = append(text, user...)
	text = append(text, password...)
	return sha256.Sum256(text)
}

// basicCredentials reads the Authorization header. Two of them count as none: the
// backend might read the other one.
func basicCredentials(head *h1.Head, space *[maxCredentials]byte) (user, password []byte, ok bool) {
	value, ok := onlyField(head, "Authorization")
	if !ok {
		return nil, nil, false
	}
	scheme, encoded, ok := bytes.Cut(value, []byte(" "))
	if !ok || !bytes.EqualFold(scheme, []byte("Basic")) {
		return nil, nil, false
	}
	encoded = bytes.TrimLeft(encoded, " ")
	if base64.StdEncoding.DecodedLen(len(encoded)) > len(space) {
		return nil, nil, false
	}
	n, err := base64.StdEncoding.Decode(space[:], encoded)
	if err != nil {
		return nil, nil, false
	}
	return bytes.Cut(space[:n], []byte(":"))
}
