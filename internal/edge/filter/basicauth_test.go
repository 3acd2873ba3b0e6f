package filter_test

import (
	"encoding/base64"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/sys/unix"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// Hashes of the password secret, as htpasswd and openssl make them.
const (
	shaLine   = "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="
	apr1Line  = "$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/"
	bcryptOld = "$2y$05$EWkKoNZvqYJ5ILIEDbrvKOW8sHwd2f7XXDCPP98vY9K5OQpN//XXK"
)

func usersPolicy(lines ...string) route.Policy {
	return route.Policy{BasicAuth: &route.BasicAuth{
		Users: route.NewSecret(strings.Join(lines, "\n")), UserHeader: "X-User",
	}}
}

func bcryptLine(t testing.TB, user, password string, cost int) string {
	t.Helper()
	hash := must.Get(bcrypt.GenerateFromPassword([]byte(password), cost))(t)
	return user + ":" + string(hash)
}

// login is a request with a user and a password.
func login(user, password string) string {
	return get("/", "Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
}

func TestPasswords(t *testing.T) {
	long := strings.Repeat("x", 64)
	chain := compile(t, filter.NewCounters(start), usersPolicy(
		"sha:"+shaLine, "apr1:"+apr1Line, "bcrypt:"+bcryptOld,
		"empty:$apr1$xx$aGHxR9NsG1buO7l/rFJjm1", "long:$apr1$saltsalt$o9AtHZ3Uosss7XdT3iX3v.",
		"wörld:"+shaLine,
	))
	tests := []struct {
		name, user, password string
		want                 int
	}{
		{"sha", "sha", "secret", 0},
		{"sha wrong", "sha", "secret ", 401},
		{"apr1", "apr1", "secret", 0},
		{"apr1 wrong", "apr1", "Secret", 401},
		{"apr1 of nothing", "empty", "", 0},
		{"apr1 of nothing wrong", "empty", "x", 401},
		{"apr1 longer than a block", "long", long, 0},
		{"apr1 longer than a block wrong", "long", long + "x", 401},
		{"bcrypt", "bcrypt", "secret", 0},
		{"bcrypt wrong", "bcrypt", "", 401},
		{"letters outside ASCII", "wörld", "secret", 0},
		{"nobody", "nobody", "secret", 401},
		{"no name", "", "secret", 401},
		{"name in capitals", "SHA", "secret", 401},
		{"hash as password", "sha", shaLine, 401},
		{"colon in password", "sha", "secret:x", 401},
		{"too long", "sha", strings.Repeat("x", 2000), 401},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for range 2 {
				r := begin(t, chain, login(test.user, test.password))
				if r.status() != test.want {
					t.Fatalf("status %d, want %d", r.status(), test.want)
				}
				if test.want == 0 && !strings.Contains(r.forwarded(t, false), "X-User: "+test.user+"\n") {
					t.Errorf("the backend does not get the user:\n%s", r.forwarded(t, false))
				}
				if test.want == 0 && strings.Contains(r.forwarded(t, false), "Authorization") {
					t.Error("the backend gets the password")
				}
			}
		})
	}
}

// TestProvenPasswordIsOfItsUser shows that what was remembered for one user
// opens nothing else: "a" with "bc" is not "ab" with "c".
func TestProvenPasswordIsOfItsUser(t *testing.T) {
	chain := compile(t, filter.NewCounters(start), usersPolicy(
		bcryptLine(t, "a", "bc", bcrypt.MinCost), bcryptLine(t, "ab", "other", bcrypt.MinCost)))
	if got := begin(t, chain, login("a", "bc")).status(); got != 0 {
		t.Fatalf("a is refused with %d", got)
	}
	for _, credentials := range [][2]string{{"ab", "c"}, {"abc", ""}, {"", "abc"}, {"a", "b"}, {"a", "bcd"}, {"ab", "bc"}} {
		if got := begin(t, chain, login(credentials[0], credentials[1])).status(); got != 401 {
			t.Errorf("%q gets %d", credentials, got)
		}
	}
	if got := begin(t, chain, login("a", "bc")).status(); got != 0 {
		t.Errorf("a is refused with %d the second time", got)
	}
}

// TestUserHeaderSpellings sends the header of the user in all spellings that
// backends take for it.
func TestUserHeaderSpellings(t *testing.T) {
	chain := compile(t, filter.NewCounters(start), usersPolicy("carol:"+shaLine))
	limits := h1.DefaultLimits()
	limits.Underscores = true
	for _, name := range []string{"X-User", "x-user", "X-USER", "X_User", "x_user", "X.User"} {
		for _, connection := range []string{"", "Connection: x-user\n", "Connection: X_User, close\n"} {
			raw := strings.TrimSuffix(login("carol", "secret"), "\n") + name + ": root\n" + connection + "\n"
			r := &run{chain: chain}
			r.x.Begin(parse(t, raw, limits), chain.Marks())
			if r.ran, r.answer = chain.Request(&r.x); r.answer != nil {
				t.Fatalf("%s: answered with %d", name, r.answer.Status)
			}
			head := r.forwarded(t, false)
			if strings.Contains(head, "root") || strings.Count(head, "X-User: carol\n") != 1 {
				t.Errorf("%s, %q:\n%s", name, connection, head)
			}
		}
	}
}

// TestStrangersCostTheSame measures that a name that is not a user's takes the
// time of a hash. Without that it would take a thousandth.
func TestStrangersCostTheSame(t *testing.T) {
	chain := compile(t, filter.NewCounters(start), usersPolicy(
		bcryptLine(t, "alice", "secret", 7), bcryptLine(t, "bob", "secret", 7)))
	// The processor's time of this thread, and the least of several: what else runs on the
	// machine can only add to it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cost := func(user string) time.Duration {
		least := time.Hour
		for i := range 5 {
			began := threadTime(t)
			if got := begin(t, chain, login(user, fmt.Sprint("wrong", i))).status(); got != 401 {
				t.Fatalf("%s gets %d", user, got)
			}
			least = min(least, threadTime(t)-began)
		}
		return least
	}
	user, stranger := cost("alice"), cost("mallory")
	if stranger < user/3 || user < stranger/3 {
		t.Errorf("a user takes %v, a stranger %v", user, stranger)
	}
}

// threadTime returns the processor's time of this thread.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var usage unix.Rusage
	must.Do(t, unix.Getrusage(unix.RUSAGE_THREAD, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// TestStrangersAreNotLetIn gives a stranger the password of every user, one of
// which it is checked against.
func TestStrangersAreNotLetIn(t *testing.T) {
	chain := compile(t, filter.NewCounters(start), usersPolicy("alice:"+shaLine, "bob:"+shaLine))
	for i := range 50 {
		if got := begin(t, chain, login(fmt.Sprint("stranger", i), "secret")).status(); got != 401 {
			t.Fatalf("a stranger gets %d", got)
		}
	}
}

// TestChecksAreBounded fills the line of those who wait for a check: the next
// one gets 503 with Retry-After, and a cached password does not have to wait.
func TestChecksAreBounded(t *testing.T) {
	counters := filter.NewCounters(start)
	chain := compile(t, counters, usersPolicy(bcryptLine(t, "alice", "secret", bcrypt.MinCost)))
	if got := begin(t, chain, login("alice", "secret")).status(); got != 0 {
		t.Fatalf("alice gets %d", got)
	}
	release := filter.HoldPasswordChecks(counters)
	const requests = 33 // one more than may wait
	statuses := make(chan *run, requests)
	for range requests {
		go func() { statuses <- begin(t, chain, login("alice", "wrong")) }()
	}
	first := <-statuses
	if first.status() != 503 || !strings.Contains(first.replied(t, "HTTP/1.1 503 Busy\n\n"), "Retry-After: 1\n") {
		t.Errorf("the one too many gets %d", first.status())
	}
	if got := begin(t, chain, login("alice", "secret")).status(); got != 0 {
		t.Errorf("who is known gets %d", got)
	}
	release()
	for range requests - 1 {
		if got := (<-statuses).status(); got != 401 {
			t.Errorf("who has waited gets %d", got)
		}
	}
	if got := begin(t, chain, login("alice", "wrong")).status(); got != 401 {
		t.Errorf("the line has not become shorter: %d", got)
	}
}

func TestHtpasswdErrors(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"no colon", "alice", "line 1 is not user:hash"},
		{"no user", ":" + shaLine, "line 1 is not user:hash"},
		{"plain text", "a:" + shaLine + "\nbob:hunter2", "line 2: the password is not hashed"},
		{"empty hash", "a:", "line 1: the password is not hashed"},
		{"crypt", "a:rqXexS6ZhobKA", "line 1: the password is not hashed"},
		{"md5crypt", "a:$1$salt$qJH7.N4xYta3aEG/dfqo/0", "line 1: the password is not hashed"},
		{"sha512crypt", "a:$6$salt$IxDD3jeSOb5eB1CX5LBsqZFVkJdido3OUILO5Ifz5iwMuTS4XMS130MTSuDDl3aCI6WouIL9AjRbLCelDCy.g.", "line 1: the password is not hashed"},
		{"short sha", "a:{SHA}5en6G6MezRroT3XK", "the {SHA} hash is cut off"},
		{"damaged sha", "a:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ", "the {SHA} hash is cut off"},
		{"short bcrypt", "a:" + bcryptOld[:59], "the bcrypt hash is cut off"},
		{"long bcrypt", "a:" + bcryptOld + "x", "the bcrypt hash is cut off"},
		{"damaged bcrypt", "a:" + bcryptOld[:30] + "!" + bcryptOld[31:], "the bcrypt hash is cut off"},
		{"bcrypt cost 0", "a:$2y$00$" + bcryptOld[7:], "the bcrypt hash is cut off"},
		{"bcrypt cost 15", "a:$2y$15$" + bcryptOld[7:], "cost 15"},
		{"bcrypt cost 31", "a:$2y$31$" + bcryptOld[7:], "cost 31"},
		{"bcrypt variant", "a:$2x$05$" + bcryptOld[7:], "the password is not hashed"},
		{"short apr1", "a:$apr1$abcdefgh$h9FWgUz3n9Yxyl", "the apr1 hash is cut off"},
		{"long salt", "a:$apr1$abcdefghi$h9FWgUz3n9YxylKLlR5SQ/", "the apr1 hash is cut off"},
		{"no salt", "a:$apr1$h9FWgUz3n9YxylKLlR5SQ/", "the apr1 hash is cut off"},
		{"twice", "a:" + shaLine + "\n\n#\na:" + apr1Line, "line 4 has the same user as line 1"},
		{"nobody", "# nobody\r\n\r\n", "there are no users"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := filter.Compile([]route.Policy{usersPolicy(test.text)}, filter.NewCounters(start))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "5en6G6") {
				t.Errorf("the error shows what it read: %v", err)
			}
		})
	}
}

// FuzzHtpasswd reads any file. An accepted file lets no client in without a password,
// and the error for a refused one does not quote it.
func FuzzHtpasswd(f *testing.F) {
	for _, seed := range []string{"a:" + shaLine, "b:" + apr1Line, "c:" + bcryptOld, "# x\n\na:b", "a:$apr1$$", "a:$2y$99$", ":::", "é:{SHA}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		chain, err := filter.Compile([]route.Policy{usersPolicy(text)}, filter.NewCounters(start))
		if err != nil {
			for line := range strings.SplitSeq(text, "\n") {
				if _, hash, _ := strings.Cut(line, ":"); len(hash) > 12 && strings.Contains(err.Error(), hash) {
					t.Errorf("the error quotes a hash: %v", err)
				}
			}
			return
		}
		if got := begin(t, &chain, get("/")).status(); got != 401 {
			t.Errorf("nobody gets %d", got)
		}
		if strings.Contains(text, "$2") {
			return // slow on purpose
		}
		if got := begin(t, &chain, login("nobody in the file\x00", "x")).status(); got != 401 {
			t.Errorf("a stranger gets %d", got)
		}
	})
}
