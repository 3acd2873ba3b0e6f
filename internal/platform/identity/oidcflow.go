package identity

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"html"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"slipway.dev/slipway/internal/platform/store"
)

const (
	// flowLife is how long a sign-in may take at the provider.
	flowLife = 10 * time.Minute
	// flowBytes bounds the cookie of one.
	flowBytes = 3 << 10
	// returnMax bounds the page that a sign-in comes back to.
	returnMax = 1024
	// firstPage is where a sign-in comes back to that began nowhere, and signInPage
	// where one can begin again: both are the console's.
	firstPage  = "/console/"
	signInPage = "/console/sign-in"
)

// flow is a sign-in that is with the provider. It is kept in a cookie of the browser
// that began it, so that only that browser can finish it.
type flow struct {
	State    string    `json:"s"`
	Nonce    string    `json:"n"`
	Verifier string    `json:"v"`
	Return   string    `json:"r"`
	Expires  time.Time `json:"e"`
}

// flowBox seals flows: nobody can make or change one, or read its verifier.
type flowBox struct{ sealer cipher.AEAD }

func newFlowBox(key [32]byte) flowBox {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // 32 bytes are a key
	}
	sealer, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // AES has the size of block that GCM needs
	}
	return flowBox{sealer}
}

func (b flowBox) seal(f flow) (string, error) {
	plain, err := json.Marshal(f)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(b.sealer.Seal(nil, nil, plain, nil)), nil
}

var errFlow = errors.New("the sign-in took too long, or was begun in another browser; begin again")

func (b flowBox) open(text string, now time.Time) (flow, error) {
	if text == "" || len(text) > flowBytes {
		return flow{}, errFlow
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return flow{}, errFlow
	}
	plain, err := b.sealer.Open(nil, nil, sealed, nil)
	if err != nil {
		return flow{}, errFlow
	}
	var f flow
	if json.Unmarshal(plain, &f) != nil || !now.Before(f.Expires) {
		return flow{}, errFlow
	}
	return f, nil
}

// localPath is a page of the platform to return to; anything else is the first page
// of the console.
func localPath(text string) string {
	parsed, err := url.Parse(text)
	odd := strings.ContainsFunc(text, func(r rune) bool { return r == '\\' || r < ' ' || r == 0x7f })
	if err != nil || odd || len(text) > returnMax || parsed.IsAbs() || parsed.Host != "" || !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") || text == "/" {
		return firstPage
	}
	return text
}

// login sends the browser to the provider.
func (o *oidcLogin) login(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
		return
	}
	provider, err := o.provider(r.Context())
	if err != nil {
		o.identity.log.Error("The identity provider does not answer", "err", err)
		page502(w, "The identity provider does not answer. Try again later, or sign in with a password.")
		return
	}
	begun := flow{
		State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(),
		Return: localPath(r.URL.Query().Get("return")), Expires: o.identity.now().Add(flowLife),
	}
	sealed, err := o.flows.seal(begun)
	if err != nil {
		page502(w, "The sign-in could not begin.")
		return
	}
	names := o.identity.cookies
	http.SetCookie(w, names.cookie(names.flow, sealed, flowLife))
	config := o.config(provider)
	http.Redirect(w, r, config.AuthCodeURL(begun.State, oidc.Nonce(begun.Nonce), oauth2.S256ChallengeOption(begun.Verifier)), http.StatusSeeOther)
}

// callback finishes what login began.
func (o *oidcLogin) callback(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
		return
	}
	names := o.identity.cookies
	// Whatever comes of it, a flow is used once.
	http.SetCookie(w, names.cookie(names.flow, "", 0))
	opened, to, err := o.finish(r)
	if err == nil {
		http.SetCookie(w, opened.cookie)
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	address := o.identity.Address(r)
	var denied *DeniedError
	if errors.As(err, &denied) {
		o.identity.deny(r.Context(), Caller{Address: address}, Event{Action: signInAction}, err)
		errorPage(w, http.StatusForbidden, denied.Reason)
		return
	}
	o.identity.log.Error("A sign-in through the identity provider failed", "err", err)
	page502(w, "The sign-in failed. The log of the platform says why.")
}

const signInAction = "auth.sign-in"

func (o *oidcLogin) finish(r *http.Request) (signedInSession, string, error) {
	ctx, query := r.Context(), r.URL.Query()
	begun, err := o.flows.open(o.identity.cookies.find(r.Header, o.identity.cookies.flow), o.identity.now())
	if err != nil || len(query["state"]) != 1 || !sameText(query.Get("state"), begun.State) {
		return signedInSession{}, "", forbidden("%s", errFlow)
	}
	if problem := query.Get("error"); problem != "" {
		return signedInSession{}, "", forbidden("the identity provider says: %s", clean(problem))
	}
	who, err := o.redeem(ctx, query.Get("code"), begun)
	if err != nil {
		return signedInSession{}, "", err
	}
	user, err := o.user(ctx, who)
	if err != nil {
		return signedInSession{}, "", err
	}
	account, err := o.identity.store.Account(ctx, user.AccountID)
	if err != nil {
		return signedInSession{}, "", err
	}
	caller := Caller{Account: account, User: user, Address: o.identity.Address(r)}
	opened, err := o.identity.signedIn(ctx, caller, r.Header, func(now *store.User) error {
		now.Subject = who.subject
		if who.role != "" {
			now.Role = who.role
		}
		return nil
	})
	if errors.Is(err, store.ErrLastAdmin) {
		return signedInSession{}, "", inAuditOf(user, forbidden("the identity provider takes the role of the last admin away: %s", store.ErrLastAdmin))
	}
	if err != nil {
		return signedInSession{}, "", err
	}
	event := Event{Action: signInAction, Target: "auth/" + user.Email, Outcome: OutcomeOK, Detail: "through " + o.options.Name}
	if err := o.identity.Record(ctx, caller, event); err != nil {
		return signedInSession{}, "", errors.Join(err, o.identity.store.DeleteSession(ctx, opened.Hash))
	}
	return opened, begun.Return, nil
}

// user finds who signs in: by what the provider calls them, or as somebody whom an
// admin expects under that email, or as somebody new.
func (o *oidcLogin) user(ctx context.Context, who externalUser) (store.User, error) {
	user, err := o.identity.store.UserBySubject(ctx, who.subject)
	if errors.Is(err, store.ErrNotFound) {
		user, err = o.newcomer(ctx, who)
	}
	if err != nil {
		return store.User{}, err
	}
	if user.Disabled {
		return store.User{}, inAuditOf(user, errDisabled())
	}
	return user, nil
}

func (o *oidcLogin) newcomer(ctx context.Context, who externalUser) (store.User, error) {
	user, err := o.identity.store.UserByEmail(ctx, who.email)
	switch {
	case err == nil && user.Subject == "" && user.PasswordHash == "":
		return user, nil
	case err == nil:
		// The provider must not decide who owns a user that it did not make.
		return store.User{}, inAuditOf(user, forbidden("there is a user %s who does not sign in through the identity provider; an admin can delete it and make one that does", user.Email))
	case !errors.Is(err, store.ErrNotFound):
		return store.User{}, err
	case !o.options.CreateUsers:
		return store.User{}, forbidden("there is no user %s; ask an admin of the account for one", who.email)
	}
	account, err := o.home(ctx)
	if err != nil {
		return store.User{}, err
	}
	role := o.options.DefaultRole
	if who.role != "" {
		role = who.role
	}
	return o.identity.store.CreateUser(ctx, store.User{
		AccountID: account, Email: who.email, Name: orElse(who.name, who.email), Role: role, Subject: who.subject, CreatedAt: o.identity.now().UTC(),
	})
}

// home is the account of new users.
func (o *oidcLogin) home(ctx context.Context) (string, error) {
	if o.options.AccountID != "" {
		return o.options.AccountID, nil
	}
	accounts, err := o.identity.store.Accounts(ctx)
	if err == nil && len(accounts) != 1 {
		err = errors.New("there are several accounts: say which one new users of the identity provider belong to")
	}
	if err != nil {
		return "", err
	}
	return accounts[0].ID, nil
}

func sameText(a, b string) bool {
	return b != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

func page502(w http.ResponseWriter, message string) { errorPage(w, http.StatusBadGateway, message) }

// errorPage tells a person what went wrong. It has no scripts and can be no frame.
func errorPage(w http.ResponseWriter, status int, message string) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "<!doctype html><title>Sign-in</title><p>"+html.EscapeString(message)+"</p><p><a href=\""+signInPage+"\">Back to the sign-in</a></p>\n")
}
