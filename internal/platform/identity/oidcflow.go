package identity

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
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
	// flowLife bounds how long a sign-in may take at the provider.
	flowLife = 10 * time.Minute
	// returnMax bounds the page to return to.
	returnMax = 1024
	// firstPage is the default page to return to, and signInPage where a
	// failed sign-in can start again; both belong to the console.
	firstPage  = "/console/"
	signInPage = "/console/sign-in"
)

// flow is a sign-in in progress. It is stored in a cookie of the browser that
// started it, so that only that browser can complete it.
type flow struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"`
	Return   string `json:"r"`
}

var errFlow = errors.New("the sign-in took too long, or was started in another browser; start again")

// localPath returns the page to return to if it is a path of the platform;
// otherwise the first page of the console. This prevents open redirects.
func localPath(text string) string {
	parsed, err := url.Parse(text)
	odd := strings.ContainsFunc(text, func(r rune) bool { return r == '\\' || r < ' ' || r == 0x7f })
	if err != nil || odd || len(text) > returnMax || parsed.IsAbs() || parsed.Host != "" || !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") || text == "/" {
		return firstPage
	}
	return text
}

// login redirects the browser to the provider.
func (o *oidcLogin) login(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
		return
	}
	provider, err := o.provider(r.Context())
	if err != nil {
		o.identity.log.Error("identity provider unreachable", "err", err)
		message := "The identity provider does not respond. Try again later"
		if !o.identity.options.SignIn.PasswordsDisabled {
			message += ", or sign in with a password"
		}
		badGatewayPage(w, message+".")
		return
	}
	// State protects against CSRF, the nonce against token injection, and the
	// verifier against code interception.
	begun := flow{
		State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(),
		Return: localPath(r.URL.Query().Get("return")),
	}
	sealed, err := o.identity.tickets.seal(ticketOIDC, flowLife, begun)
	if err != nil {
		badGatewayPage(w, "The sign-in could not be started.")
		return
	}
	names := o.identity.cookies
	http.SetCookie(w, names.cookie(names.flow, sealed, flowLife))
	config := o.config(provider)
	http.Redirect(w, r, config.AuthCodeURL(begun.State, oidc.Nonce(begun.Nonce), oauth2.S256ChallengeOption(begun.Verifier)), http.StatusSeeOther)
}

// callback completes a sign-in.
func (o *oidcLogin) callback(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
		return
	}
	names := o.identity.cookies
	// A flow is used only once, also if it fails.
	http.SetCookie(w, names.cookie(names.flow, "", 0))
	opened, to, err := o.finish(r)
	if err == nil {
		http.SetCookie(w, opened.cookie)
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	address := o.identity.Address(r)
	if denied, ok := errors.AsType[*DeniedError](err); ok {
		o.identity.Deny(r.Context(), Caller{Address: address}, Event{Action: signInAction}, err)
		errorPage(w, http.StatusForbidden, denied.Reason)
		return
	}
	o.identity.log.Error("sign-in through the identity provider failed", "err", err)
	badGatewayPage(w, "The sign-in failed. The platform's log has the reason.")
}

const signInAction = "auth.sign-in"

// finish verifies state, code and ID token, and opens a session. If the audit
// entry cannot be written, the session is deleted again.
func (o *oidcLogin) finish(r *http.Request) (openedSession, string, error) {
	ctx, query := r.Context(), r.URL.Query()
	var begun flow
	err := o.identity.tickets.open(ticketOIDC, o.identity.cookies.find(r.Header, o.identity.cookies.flow), &begun)
	if err != nil || len(query["state"]) != 1 || !equalText(query.Get("state"), begun.State) {
		return openedSession{}, "", forbidden("%s", errFlow)
	}
	// The provider's error is evaluated after the state: anyone can call this
	// endpoint.
	if problem := query.Get("error"); problem != "" {
		return openedSession{}, "", forbidden("error of the identity provider: %s", clean(problem))
	}
	who, err := o.redeem(ctx, query.Get("code"), begun)
	if err != nil {
		return openedSession{}, "", err
	}
	user, err := o.user(ctx, who)
	if err != nil {
		return openedSession{}, "", err
	}
	account, err := o.identity.store.Account(ctx, user.AccountID)
	if err != nil {
		return openedSession{}, "", err
	}
	caller := Caller{Account: account, User: user, Address: o.identity.Address(r)}
	opened, err := o.identity.completeSignIn(ctx, caller, r.Header, func(now *store.User) error {
		// A user of the identity provider has no password, also when
		// passwords are enabled again.
		now.Subject, now.PasswordHash, now.MustChangePassword = who.subject, "", false
		now.Groups = who.groups
		if who.role != "" {
			now.Role = who.role
		}
		return nil
	})
	if errors.Is(err, store.ErrLastAdmin) {
		return openedSession{}, "", withAuditUser(user, forbidden("the identity provider takes the role of the last admin away: %s", store.ErrLastAdmin))
	}
	if err != nil {
		return openedSession{}, "", err
	}
	event := Event{Action: signInAction, Target: "auth/" + user.Email, Outcome: OutcomeOK, Code: CodeOK, Detail: "through " + o.options.Name}
	if err := o.identity.Record(ctx, caller, event); err != nil {
		return openedSession{}, "", errors.Join(err, o.identity.store.DeleteSession(ctx, opened.Hash))
	}
	return opened, begun.Return, nil
}

// user returns the user of an external identity: by subject, by the email
// that an admin registered, or a new user.
func (o *oidcLogin) user(ctx context.Context, who externalUser) (store.User, error) {
	user, err := o.identity.store.UserBySubject(ctx, who.subject)
	if errors.Is(err, store.ErrNotFound) {
		user, err = o.linkOrCreateUser(ctx, who)
	}
	if err != nil {
		return store.User{}, err
	}
	if user.Disabled {
		return store.User{}, withAuditUser(user, errDisabled())
	}
	return user, nil
}

// linkOrCreateUser links an identity to the user that an admin created for
// it, or creates one.
func (o *oidcLogin) linkOrCreateUser(ctx context.Context, who externalUser) (store.User, error) {
	// Linking by email is limited to users without another identity, and
	// without a password that they could sign in with.
	user, err := o.identity.store.UserByEmail(ctx, who.email)
	switch {
	case err == nil && user.Subject == "" && (user.PasswordHash == "" || o.identity.options.SignIn.PasswordsDisabled):
		return user, nil
	case err == nil:
		// The provider must not take over a user that it did not create.
		return store.User{}, withAuditUser(user, forbidden("there is a user %s who does not sign in through the identity provider; an admin can delete it and make one that does", user.Email))
	case !errors.Is(err, store.ErrNotFound):
		return store.User{}, err
	case !o.options.CreateUsers:
		return store.User{}, forbidden("there is no user %s: an admin of the account must create it", who.email)
	}
	account, err := o.defaultAccount(ctx)
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

// defaultAccount returns the account of new users.
func (o *oidcLogin) defaultAccount(ctx context.Context) (string, error) {
	if o.options.AccountID != "" {
		return o.options.AccountID, nil
	}
	accounts, err := o.identity.store.Accounts(ctx)
	if err == nil && len(accounts) != 1 {
		err = errors.New("there are several accounts: configure the account of new users of the identity provider")
	}
	if err != nil {
		return "", err
	}
	return accounts[0].ID, nil
}

// equalText compares in constant time; an empty b never matches.
func equalText(a, b string) bool {
	return b != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

func badGatewayPage(w http.ResponseWriter, message string) {
	errorPage(w, http.StatusBadGateway, message)
}

// errorPage writes an error page for browsers, without scripts and not
// embeddable in frames.
func errorPage(w http.ResponseWriter, status int, message string) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "<!doctype html><title>Sign-in</title><p>"+html.EscapeString(message)+"</p><p><a href=\""+signInPage+"\">Back to the sign-in</a></p>\n")
}
