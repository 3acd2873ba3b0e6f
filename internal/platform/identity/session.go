package identity

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"time"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

// Lifetimes of sessions.
const (
	sessionIdle = 12 * time.Hour
	sessionLife = 7 * 24 * time.Hour
	// touchInterval is how often the last use of a session or key is written.
	touchInterval = time.Minute
)

// sessionChars is the length of a session's secret in its cookie.
var sessionChars = base64.RawURLEncoding.EncodedLen(32)

// cookieNames holds the names of the session cookie, the device cookie and the
// cookie of an OpenID sign-in in progress. With the prefix __Host- browsers reject cookies
// that another host or an unencrypted page set (RFC 6265bis).
type cookieNames struct {
	session, device, flow string
	secure                bool
}

// newCookieNames returns the names; without TLS browsers reject the __Host-
// prefix.
func newCookieNames(secure bool) cookieNames {
	if secure {
		return cookieNames{session: "__Host-slipway", device: "__Host-slipway-device", flow: "__Host-slipway-oidc", secure: true}
	}
	return cookieNames{session: "slipway", device: "slipway-device", flow: "slipway-oidc"}
}

// cookie returns a cookie; an empty value deletes it. SameSite=Lax keeps it
// off cross-site POST requests.
func (n cookieNames) cookie(name, value string, life time.Duration) *http.Cookie {
	cookie := &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true, Secure: n.secure, SameSite: http.SameSiteLaxMode, MaxAge: int(life.Seconds())}
	if value == "" {
		cookie.MaxAge = -1
	}
	return cookie
}

// find returns the value of a cookie. A duplicate name counts as absent: one
// of the cookies was planted.
func (n cookieNames) find(header http.Header, name string) string {
	request := http.Request{Header: header}
	value := ""
	for _, cookie := range request.CookiesNamed(name) {
		if value != "" {
			return ""
		}
		value = cookie.Value
	}
	return value
}

// openedSession is a new session with its user and its secrets.
type openedSession struct {
	store.Session
	user   store.User // as stored
	cookie *http.Cookie
	csrf   secret.Text
}

// openSession creates a session, together with a change of its user. The
// session of the request is deleted, which prevents session fixation.
func (i *Identity) openSession(ctx context.Context, user store.User, header http.Header, address string, change func(*store.User) (store.Ending, error)) (openedSession, error) {
	// An attacker could have planted the session cookie before the sign-in.
	if old := i.sessionSecret(header); !old.IsZero() {
		if err := i.store.DeleteSession(ctx, hashOf(old)); err != nil {
			return openedSession{}, err
		}
	}
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails, as its documentation says
	value := secret.New(base64.RawURLEncoding.EncodeToString(random))
	csrf := csrfToken(value)
	now := i.now().UTC()
	session := store.Session{
		Hash: hashOf(value), UserID: user.ID, AccountID: user.AccountID, CSRFHash: hashOf(csrf),
		CreatedAt: now, ExpiresAt: now.Add(sessionIdle), SeenAt: now,
		Address: address, Agent: clean(header.Get("User-Agent")),
	}
	user, err := i.store.OpenSession(ctx, session, change)
	if err != nil {
		return openedSession{}, err
	}
	return openedSession{Session: session, user: user, cookie: i.cookies.cookie(i.cookies.session, value.Reveal(), sessionLife), csrf: csrf}, nil
}

// sessionSecret returns the secret of the session cookie; empty if it cannot
// be one.
func (i *Identity) sessionSecret(header http.Header) secret.Text {
	value := i.cookies.find(header, i.cookies.session)
	if len(value) != sessionChars {
		return secret.Text{}
	}
	return secret.New(value)
}

// hashOf returns the stored form of a high-entropy secret.
func hashOf(value secret.Text) []byte {
	sum := sha256.Sum256([]byte(value.Reveal()))
	return sum[:]
}

// csrfToken derives the CSRF token from the session's secret, so that Me can
// return it again without storing it.
func csrfToken(session secret.Text) secret.Text {
	mac := hmac.New(sha256.New, []byte(session.Reveal()))
	mac.Write([]byte("slipway csrf"))
	return secret.New(base64.RawURLEncoding.EncodeToString(mac.Sum(nil)))
}

var errNoSession = unauthenticated("the session has ended; sign in again")

// authenticateSession authenticates a caller by session cookie. Unsafe
// requests need the CSRF token; Me is exempt, because it returns the token.
func (i *Identity) authenticateSession(ctx context.Context, in inbound, value secret.Text) (Caller, error) {
	if err := i.sameOrigin(in); err != nil {
		return Caller{}, err
	}
	session, err := i.liveSession(ctx, hashOf(value))
	if err != nil {
		return Caller{}, err
	}
	// The comparison is of hashes and in constant time.
	if in.unsafe() && in.procedure != platformv1connect.AuthServiceMeProcedure {
		token := secret.New(in.header.Get(wire.CSRFHeader))
		if subtle.ConstantTimeCompare(hashOf(token), session.CSRFHash) != 1 {
			return Caller{}, forbidden("the request lacks the CSRF token in the header %s; AuthService.Me returns it", wire.CSRFHeader)
		}
	}
	caller := Caller{Session: &session, Address: in.address, proof: value}
	if err := i.loadUser(ctx, &caller, session.UserID, session.AccountID); err != nil {
		return Caller{}, err
	}
	// Only users of the identity provider have a subject, so a password opened
	// this session, before it was disabled.
	if i.options.SignIn.PasswordsDisabled && caller.User.Subject == "" {
		return Caller{}, unauthenticated("the session has ended, because passwords are disabled on this platform: sign in through %s", i.oidc.options.Name)
	}
	i.touchSession(ctx, session)
	return caller, nil
}

// liveSession returns a session that has not expired: neither idle for too
// long nor beyond its total lifetime.
func (i *Identity) liveSession(ctx context.Context, hash []byte) (store.Session, error) {
	session, err := i.store.Session(ctx, hash)
	if errors.Is(err, store.ErrNotFound) {
		return store.Session{}, errNoSession
	}
	if err != nil {
		return store.Session{}, err
	}
	now := i.now()
	if !now.Before(session.ExpiresAt) || !now.Before(session.SeenAt.Add(sessionIdle)) || !now.Before(session.CreatedAt.Add(sessionLife)) {
		return store.Session{}, errNoSession
	}
	return session, nil
}

// touchSession updates the last use of a session. A failure does not fail the
// request.
func (i *Identity) touchSession(ctx context.Context, session store.Session) {
	now := i.now().UTC()
	if now.Sub(session.SeenAt) < touchInterval {
		return
	}
	expires := now.Add(sessionIdle)
	if end := session.CreatedAt.Add(sessionLife); end.Before(expires) {
		expires = end
	}
	if err := i.store.TouchSession(ctx, session.Hash, now, expires); err != nil && !errors.Is(err, store.ErrNotFound) {
		i.log.Warn("updating the last use of a session failed", "err", err)
	}
}

// sameOrigin rejects requests that a page of another origin sent with a
// cookie. It uses fetch metadata and Origin; programs send neither.
func (i *Identity) sameOrigin(in inbound) error {
	site := in.header.Get("Sec-Fetch-Site")
	// Cross-site navigation may open a page; WebSockets and scripts may not
	// read.
	page := site == "" || in.header.Get("Sec-Fetch-Mode") == "navigate"
	if !in.unsafe() && page && in.header.Get("Upgrade") == "" {
		return nil
	}
	if site != "" && site != "same-origin" && site != "none" {
		return forbidden("the request comes from a page of another site")
	}
	if origin := in.header.Get("Origin"); origin != "" && !i.isOrigin(origin) {
		return forbidden("the request comes from a page of another site than the platform's public URL")
	}
	return nil
}

// isOrigin reports whether an Origin header names the public URL.
func (i *Identity) isOrigin(origin string) bool {
	parsed, err := url.Parse(origin)
	return err == nil && parsed.Scheme+"://"+CanonicalHost(parsed) == i.origin
}
