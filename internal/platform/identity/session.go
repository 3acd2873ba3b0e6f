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

// How long sessions are good.
const (
	sessionIdle = 12 * time.Hour
	sessionLife = 7 * 24 * time.Hour
	// touchEvery is how often the last use of a session or a key is written.
	touchEvery = time.Minute
)

// sessionChars is how long the secret of a session is in its cookie.
var sessionChars = base64.RawURLEncoding.EncodedLen(32)

// cookieNames are those of a session, and of a sign-in that is with the identity
// provider. The prefix __Host- makes browsers refuse cookies that another host or an
// unencrypted page set.
type cookieNames struct {
	session, flow string
	secure        bool
}

func newCookieNames(secure bool) cookieNames {
	if secure {
		return cookieNames{session: "__Host-slipway", flow: "__Host-slipway-oidc", secure: true}
	}
	return cookieNames{session: "slipway", flow: "slipway-oidc"}
}

func (n cookieNames) cookie(name, value string, life time.Duration) *http.Cookie {
	cookie := &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true, Secure: n.secure, SameSite: http.SameSiteLaxMode, MaxAge: int(life.Seconds())}
	if value == "" {
		cookie.MaxAge = -1
	}
	return cookie
}

// find gives the value of a cookie. A name that is there twice counts as absent: one
// of them was planted.
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

// openedSession is a new session with its secrets.
type openedSession struct {
	store.Session
	cookie *http.Cookie
	csrf   secret.Text
}

// openSession signs a user in. The session that the request came with ends: its
// secret may be known to whoever planted it.
func (i *Identity) openSession(ctx context.Context, user store.User, header http.Header, address string) (openedSession, error) {
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
	if err := i.store.CreateSession(ctx, session); err != nil {
		return openedSession{}, err
	}
	return openedSession{Session: session, cookie: i.cookies.cookie(i.cookies.session, value.Reveal(), sessionLife), csrf: csrf}, nil
}

// sessionSecret is what the cookie of a request says; empty when it can be none.
func (i *Identity) sessionSecret(header http.Header) secret.Text {
	value := i.cookies.find(header, i.cookies.session)
	if len(value) != sessionChars {
		return secret.Text{}
	}
	return secret.New(value)
}

// hashOf is what the store keeps of a secret with much entropy.
func hashOf(value secret.Text) []byte {
	sum := sha256.Sum256([]byte(value.Reveal()))
	return sum[:]
}

// csrfToken is derived from the session's secret, so that Me can answer it again.
func csrfToken(session secret.Text) secret.Text {
	mac := hmac.New(sha256.New, []byte(session.Reveal()))
	mac.Write([]byte("slipway csrf"))
	return secret.New(base64.RawURLEncoding.EncodeToString(mac.Sum(nil)))
}

var errNoSession = unauthenticated("the session has ended; sign in again")

// bySession knows the caller by the cookie.
func (i *Identity) bySession(ctx context.Context, in inbound, value secret.Text) (Caller, error) {
	if err := i.sameOrigin(in); err != nil {
		return Caller{}, err
	}
	session, err := i.liveSession(ctx, hashOf(value))
	if err != nil {
		return Caller{}, err
	}
	if in.unsafe() && in.procedure != platformv1connect.AuthServiceMeProcedure {
		token := secret.New(in.header.Get(wire.CSRFHeader))
		if subtle.ConstantTimeCompare(hashOf(token), session.CSRFHash) != 1 {
			return Caller{}, forbidden("the request lacks the token of its session in the header %s; AuthService.Me answers it", wire.CSRFHeader)
		}
	}
	caller := Caller{Session: &session, Address: in.address, proof: value}
	if err := i.loadUser(ctx, &caller, session.UserID, session.AccountID); err != nil {
		return Caller{}, err
	}
	i.touchSession(ctx, session)
	return caller, nil
}

// liveSession finds a session that has not ended.
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

// touchSession notes the use of a session. A session that cannot be noted works on.
func (i *Identity) touchSession(ctx context.Context, session store.Session) {
	now := i.now().UTC()
	if now.Sub(session.SeenAt) < touchEvery {
		return
	}
	expires := now.Add(sessionIdle)
	if end := session.CreatedAt.Add(sessionLife); end.Before(expires) {
		expires = end
	}
	if err := i.store.TouchSession(ctx, session.Hash, now, expires); err != nil && !errors.Is(err, store.ErrNotFound) {
		i.log.Warn("The use of a session could not be noted", "err", err)
	}
}

// sameOrigin refuses requests that a page of another origin made with somebody's
// cookie. Programs send neither header.
func (i *Identity) sameOrigin(in inbound) error {
	site := in.header.Get("Sec-Fetch-Site")
	// A link from elsewhere may open a page; a WebSocket or a script may not read.
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

func (i *Identity) isOrigin(origin string) bool {
	parsed, err := url.Parse(origin)
	return err == nil && parsed.Scheme+"://"+CanonicalHost(parsed) == i.origin
}
