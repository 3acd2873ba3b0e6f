package accountcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/cli/prompt"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// loginFlags are the flags of login. No flag takes a password or a key itself:
// command lines are visible to other users of the machine.
type loginFlags struct {
	email, keyFile, name, caFile string
	passwordStdin                bool
}

// Login returns the command slipway login. The context that it stores becomes
// current.
func Login() *cobra.Command {
	given := &loginFlags{}
	command := &cobra.Command{
		Use:   "login URL",
		Short: "Sign in to a platform, and make its context current",
		Long: `Signs in to a platform with an email and a password, creates an API key for this
machine that is valid for 90 days, and keeps it in a file that only you can read
(slipway config). The password is not stored. A one-time password must be changed at
once: login prompts twice for the new one. For a user with a second factor login
prompts for a code of the authenticator app, or a recovery code; a passkey works in
the console only.

With --api-key-file it uses an existing key, for pipelines and for users who sign in
through an identity provider.`,
		Example: `  slipway login https://platform.example.com --email ada@example.com
  slipway login https://platform.example.com --api-key-file key.txt --name prod
  pass show platform | slipway login https://platform.example.com --email ada@example.com --password-stdin`,
		Args: cobra.ExactArgs(1),
	}
	flags := command.Flags()
	flags.StringVar(&given.email, "email", "", "email to sign in with (default: prompt)")
	flags.StringVar(&given.keyFile, "api-key-file", "", "file with an API key to use instead of a password; - is standard input")
	flags.StringVar(&given.name, "name", "", "name of the context (default the host of the URL)")
	flags.StringVar(&given.caFile, "ca-file", "", "PEM file with the CA certificates of the platform (default the system's)")
	flags.BoolVar(&given.passwordStdin, "password-stdin", false, "read the password from standard input, from the next line the code of the second factor if the user has one, and then the new password if it must be changed")
	command.RunE = func(command *cobra.Command, args []string) error { return login(command, args[0], given) }
	return command
}

// login signs in and stores the context. It has two ways: with a password,
// which creates a key for this machine, or with a key from elsewhere.
func login(command *cobra.Command, address string, given *loginFlags) error {
	if given.keyFile != "" && (given.email != "" || given.passwordStdin) {
		return exit.UsageError{Err: errors.New("--api-key-file needs neither an email nor a password")}
	}
	// Checked before any prompt and any request: plain HTTP to another machine
	// would send the password unencrypted.
	parsed, err := apiclient.ParseURL(address)
	if err != nil {
		return exit.UsageError{Err: err}
	}
	// The host is a name that users recognise, and --name distinguishes two
	// accounts at one platform.
	made := apiclient.Context{Name: cmp.Or(given.name, parsed.Host), URL: parsed.String()}
	// The path is stored absolute: later commands run in other directories.
	if given.caFile != "" {
		if made.CAFile, err = filepath.Abs(given.caFile); err != nil {
			return err
		}
	}
	// A key from a file is used as it is: KeyMade stays false, so that logout
	// does not revoke it.
	if given.keyFile != "" {
		made.Key, err = prompt.ReadSecret(command, given.keyFile, "the API key")
	} else {
		err = signIn(command, &made, given)
	}
	if err != nil {
		return err
	}
	return keepLogin(command, made)
}

// keepLogin verifies the key with a request and stores the context. A created
// key that cannot be stored is revoked, and so is the key of an earlier login
// that this one replaces: only the stored key stays valid. Failing to revoke
// the earlier key is a note and not an error, because the login has succeeded.
func keepLogin(command *cobra.Command, made apiclient.Context) error {
	client, err := apiclient.New(made)
	if err != nil {
		return exit.UsageError{Err: err}
	}
	defer client.Close()
	ctx := command.Context()
	// The request is made with the new key, so that a key that the platform
	// does not accept is never stored.
	me, err := apiclient.Call(ctx, client, client.Auth().Me, &platformv1.MeRequest{})
	if err != nil {
		return err
	}
	// The platform's own record wins over the email that was typed: it also
	// covers a key from a file, of which only the platform has the owner.
	made.User, made.Account, made.AccountID = me.GetUser().GetEmail(), me.GetAccount().GetName(), me.GetAccount().GetId()
	made.KeyID = me.GetKey().GetId()
	// A zero time is a key that does not expire.
	if expires := me.GetKey().GetExpiresAt(); expires != nil {
		made.KeyExpires = expires.AsTime().UTC()
	}
	// The context of the same name is copied inside the lock and used after it:
	// revoking its key is a request, and the lock is not held across requests.
	var before apiclient.Context
	err = apiclient.UpdateContexts(ctx, func(book *apiclient.Contexts) error {
		if found := book.Find(made.Name); found != nil {
			before = *found
			if before.URL == made.URL {
				// The default runtime survives a new login at the same
				// platform.
				made.Runtime = before.Runtime
			}
		}
		book.Put(made)
		book.Current = made.Name
		return nil
	})
	if err != nil {
		// WithoutCancel: the key has to be revoked after Ctrl-C as well.
		if made.KeyMade {
			err = errors.Join(err, client.RevokeKey(context.WithoutCancel(ctx), made.KeyID))
		}
		return err
	}
	// Only the key that this login replaces: another user's, or another
	// platform's, stays.
	if before.KeyMade && before.KeyID != made.KeyID && before.URL == made.URL && before.User == made.User {
		if err := client.RevokeKey(ctx, before.KeyID); err != nil {
			printer.Note(command, "The key of the last login could not be revoked: %s", err.Error())
		}
	}
	until := ""
	if !made.KeyExpires.IsZero() {
		until = " until " + made.KeyExpires.Format(time.DateOnly)
	}
	printer.Note(command, "Signed in to %s as %s, account %s%s. The context is %s.", made.URL, made.User, made.Account, until, made.Name)
	return nil
}

// csrfTransport adds the CSRF token of a session to requests. The platform
// requires it from clients with a cookie. The token is a pointer because the
// session learns it from the response to its first request.
type csrfTransport struct {
	token *secret.Text
	next  http.RoundTripper
}

// RoundTrip sends a request with the token, if there is one yet. It clones the
// request: a RoundTripper must not change the caller's.
func (t *csrfTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if t.token.IsZero() {
		return t.next.RoundTrip(request)
	}
	// The header and not the cookie proves that the request comes from this
	// client.
	marked := request.Clone(request.Context())
	marked.Header.Set(wire.CSRFHeader, t.token.Reveal())
	return t.next.RoundTrip(marked)
}

// session is a client with a cookie instead of a key. It lives as long as a
// login takes and is used by one goroutine.
type session struct {
	*apiclient.Client
	// csrf is shared with the transport, which reads it for every request.
	csrf *secret.Text
}

// newSession returns a client with an empty cookie jar and no key. A key of the
// context is left out, so that the platform sees the session alone.
func newSession(made apiclient.Context) (*session, error) {
	made.Key = secret.Text{}
	client, err := apiclient.New(made)
	if err != nil {
		return nil, exit.UsageError{Err: err}
	}
	client.HTTP.Jar, err = cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	csrf := &secret.Text{}
	client.HTTP.Transport = &csrfTransport{token: csrf, next: client.HTTP.Transport}
	return &session{client, csrf}, nil
}

// signIn signs in with a password and creates a key, which it puts into made.
// The password is not stored. The session ends with it: later commands use the
// key.
func signIn(command *cobra.Command, made *apiclient.Context, given *loginFlags) error {
	prompter := prompt.New(command)
	if !prompter.Interactive() && !given.passwordStdin {
		return exit.UsageError{Err: errors.New("there is no terminal for a password prompt: use --api-key-file, or --password-stdin")}
	}
	// The session is closed when signIn returns, also after an error; keepLogin
	// opens a client with the key.
	s, err := newSession(*made)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx := command.Context()
	// Asked first: a platform with an identity provider only has no passwords,
	// and the user would type one for nothing.
	methods, err := apiclient.Call(ctx, s.Client, s.Auth().Methods, &platformv1.MethodsRequest{})
	if err != nil {
		return err
	}
	if !methods.GetPassword() {
		return fmt.Errorf("this platform has no passwords: sign in through %s in a browser, make an API key there, and use --api-key-file", cmp.Or(methods.GetOidcName(), "its identity provider"))
	}
	email := given.email
	if email == "" && !prompter.Interactive() {
		return exit.UsageError{Err: errors.New("--password-stdin needs --email")}
	}
	if email == "" {
		if email, err = prompter.Line("Email: "); err != nil {
			return err
		}
	}
	// Read without echo on a terminal, or as a line of standard input.
	password, err := prompter.Hidden("Password: ")
	if err != nil {
		return err
	}
	if err := s.enter(ctx, prompter, email, password); err != nil {
		return err
	}
	return s.makeKey(ctx, made)
}

// enter signs in. A one-time password is exchanged for a chosen one at once:
// the platform allows nothing else with it. The exchange replaces the session
// and its CSRF token, which Me returns.
func (s *session) enter(ctx context.Context, prompter *prompt.Prompter, email string, password secret.Text) error {
	user, err := s.present(ctx, prompter, email, password)
	if err != nil || !user.GetMustChangePassword() {
		return err
	}
	_, _ = fmt.Fprintln(prompter.Out, "This is a one-time password: choose your own. Until then it stays valid.")
	chosen, err := prompter.ChooseTwice("New password: ")
	if err != nil {
		return err
	}
	_, err = apiclient.Call(ctx, s.Client, s.Auth().ChangePassword, &platformv1.ChangePasswordRequest{OldPassword: password.Reveal(), NewPassword: chosen.Reveal()})
	if err != nil {
		return err
	}
	me, err := apiclient.Call(ctx, s.Client, s.Auth().Me, &platformv1.MeRequest{})
	if err != nil {
		return err
	}
	*s.csrf = secret.New(me.GetCsrfToken())
	return nil
}

// present sends email and password, then the second factor if the user has one,
// and keeps the CSRF token of the new session, which all later requests of the
// session carry.
func (s *session) present(ctx context.Context, prompter *prompt.Prompter, email string, password secret.Text) (*platformv1.User, error) {
	response, err := s.signIn(ctx, &platformv1.SignInRequest{Email: email, Password: password.Reveal()})
	if err != nil {
		return nil, err
	}
	if challenge := response.GetSecondFactor(); challenge != nil {
		code, err := secondFactorCode(prompter, challenge.GetTotp())
		if err != nil {
			return nil, err
		}
		response, err = apiclient.Call(ctx, s.Client, s.Auth().CompleteSignIn, &platformv1.CompleteSignInRequest{Ticket: challenge.GetTicket(), Code: code.Reveal()})
		if err != nil {
			return nil, err
		}
	}
	*s.csrf = secret.New(response.GetCsrfToken())
	return response.GetUser(), nil
}

// signIn sends email and password. The error of a wrong password names who can
// reset a lost one: the first admin may be the only one.
func (s *session) signIn(ctx context.Context, given *platformv1.SignInRequest) (*platformv1.SignInResponse, error) {
	bounded, cancel := context.WithTimeout(ctx, apiclient.RequestTimeout)
	defer cancel()
	response, err := s.Auth().SignIn(bounded, connect.NewRequest(given))
	if err == nil {
		return response.Msg, nil
	}
	explained := s.Explain(ctx, err)
	if connect.IsWireError(err) && connect.CodeOf(err) == connect.CodeUnauthenticated {
		email := printer.Printable(given.GetEmail())
		explained = fmt.Errorf("%w; a lost password is reset by an admin of the account with slipway account users reset-password %s, or on the machine of the platform with slipway platform reset-password %s",
			explained, email, email)
	}
	return nil, explained
}

// secondFactorCode prompts for the code of the second factor. A passkey needs a
// browser: without an authenticator app a recovery code is the only one that a
// terminal can send.
func secondFactorCode(prompter *prompt.Prompter, app bool) (secret.Text, error) {
	if app {
		return prompter.Hidden("Code of the authenticator app, or a recovery code: ")
	}
	code, err := prompter.Hidden("Recovery code (the passkey works in the console only): ")
	if err != nil && prompter.Interactive() {
		return secret.Text{}, err
	}
	if err != nil || code.Reveal() == "" {
		return secret.Text{}, errors.New("the second factor of this user is a passkey, which needs a browser: create an API key in the console, under Settings > API keys, and use --api-key-file, or enter a recovery code")
	}
	return code, nil
}

// makeKey creates the key of this machine and ends the session. The host in its
// name lets an admin see in the list which machine a key is on; a machine
// without a host name still gets a key.
func (s *session) makeKey(ctx context.Context, made *apiclient.Context) error {
	// The name is for people; the platform identifies the key by its ID.
	host, err := os.Hostname()
	if err != nil {
		host = "a machine"
	}
	key, err := apiclient.Call(ctx, s.Client, s.Keys().CreateKey, &platformv1.CreateKeyRequest{
		Name: "cli on " + host, Scopes: []platformv1.Scope{platformv1.Scope_SCOPE_ALL},
	})
	if err != nil {
		return err
	}
	made.Key, made.KeyID, made.KeyMade = secret.New(key.GetSecret()), key.GetKey().GetId(), true
	// Best effort: the session expires by itself.
	_, _ = apiclient.Call(ctx, s.Client, s.Auth().SignOut, &platformv1.SignOutRequest{})
	return nil
}
