package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// The Secret with the credential of the runtime, and its fields.
const (
	runtimeSecret    = "slipway-git-runtime"
	fieldToken       = "token"
	fieldRefresh     = "refreshToken"
	fieldExpires     = "expiresAt"
	fieldUsername    = "username"
	fieldSSHKey      = "sshPrivateKey"
	fieldKnownHosts  = "knownHosts"
	fieldAuthorities = "certificateAuthorities"
	fieldProvider    = "provider"
	fieldAPIURL      = "apiURL"
	fieldStatus      = "status"
)

// runtimeCredential is what the runtime uses for Git.
type runtimeCredential struct {
	held
	sshKey      secret.Text
	knownHosts  string
	authorities string
	kind        gitprovider.Kind
	apiURL      string
	status      statusEntry
	// version is that of the Secret it was read from.
	version string
}

// loadRuntime reads the credential of the runtime; nil when there is none.
func (s *Service) loadRuntime(ctx context.Context) (*runtimeCredential, error) {
	found, err := s.secrets().Get(ctx, runtimeSecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, storeError("read the Secret", runtimeSecret, err)
	}
	text := func(field string) string { return strings.TrimSpace(string(found.Data[field])) }
	c := &runtimeCredential{
		held:   held{Token: secret.New(text(fieldToken)), Refresh: secret.New(text(fieldRefresh)), Username: text(fieldUsername)},
		sshKey: secret.New(text(fieldSSHKey)), knownHosts: text(fieldKnownHosts), authorities: text(fieldAuthorities),
		kind: gitprovider.Kind(text(fieldProvider)), apiURL: text(fieldAPIURL), version: found.ResourceVersion,
	}
	c.ExpiresAt, _ = time.Parse(time.RFC3339, text(fieldExpires))
	// A status that cannot be read is checked again.
	_ = json.Unmarshal(found.Data[fieldStatus], &c.status)
	if c.Token.IsZero() {
		return nil, nil
	}
	return c, nil
}

// storeRuntime stores it: first what the engine reads, then the Secret that says
// that there is a credential.
func (s *Service) storeRuntime(ctx context.Context, c *runtimeCredential) error {
	if err := s.writeArgo(ctx, c); err != nil {
		return err
	}
	status, err := json.Marshal(c.status)
	if err != nil {
		return err
	}
	data := map[string][]byte{
		fieldToken: []byte(c.Token.Reveal()), fieldUsername: []byte(c.Username),
		fieldProvider: []byte(c.kind), fieldAPIURL: []byte(c.apiURL), fieldStatus: status,
		fieldSSHKey: []byte(c.sshKey.Reveal()), fieldKnownHosts: []byte(c.knownHosts), fieldAuthorities: []byte(c.authorities),
		fieldRefresh: []byte(c.Refresh.Reveal()),
	}
	if !c.ExpiresAt.IsZero() {
		data[fieldExpires] = []byte(c.ExpiresAt.UTC().Format(time.RFC3339))
	}
	return s.putSecret(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: runtimeSecret, Labels: labels("git-runtime")}, Data: data})
}

// putSecret makes a Secret, or replaces its data. Annotations and labels that
// others added stay.
func (s *Service) putSecret(ctx context.Context, wanted *corev1.Secret) error {
	for _, field := range fieldsOf(wanted.Data) {
		if len(wanted.Data[field]) == 0 {
			delete(wanted.Data, field)
		}
	}
	for range 5 {
		found, err := s.secrets().Get(ctx, wanted.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = s.secrets().Create(ctx, wanted, metav1.CreateOptions{})
		case err == nil:
			found.Data = wanted.Data
			if found.Labels == nil {
				found.Labels = map[string]string{}
			}
			for key, value := range wanted.Labels {
				found.Labels[key] = value
			}
			_, err = s.secrets().Update(ctx, found, metav1.UpdateOptions{})
		}
		if err == nil {
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return storeError("write the Secret", wanted.Name, err)
		}
	}
	return connect.NewError(connect.CodeAborted, fmt.Errorf("write the Secret %s: others change it all the time: try again", wanted.Name))
}

func fieldsOf(data map[string][]byte) []string {
	var fields []string
	for field := range data {
		fields = append(fields, field)
	}
	return fields
}

// SetRuntimeCredentials implements IntegrationService. What is not given stays as
// it was (R65, R66, R114).
func (s *Service) SetRuntimeCredentials(ctx context.Context, request *connect.Request[runtimev1.SetRuntimeCredentialsRequest]) (*connect.Response[runtimev1.SetRuntimeCredentialsResponse], error) {
	if _, err := admin(ctx); err != nil {
		return nil, err
	}
	wanted, err := s.merge(ctx, request.Msg)
	if err != nil {
		return nil, err
	}
	if err := s.adopt(ctx, wanted, request.Msg.GetSkipValidation()); err != nil {
		return nil, err
	}
	return connect.NewResponse(&runtimev1.SetRuntimeCredentialsResponse{Status: wanted.status.shown(s.options.Runtime)}), nil
}

// adopt checks a credential with the provider and stores it.
func (s *Service) adopt(ctx context.Context, wanted *runtimeCredential, skip bool) error {
	err := s.checkRuntime(ctx, wanted)
	if !skip {
		if err != nil {
			return answerError(err)
		}
		if wanted.status.State != string(gitprovider.StateOK) {
			return precondition("the token is not stored: %s", wanted.status.Message)
		}
	}
	if err := s.storeRuntime(ctx, wanted); err != nil {
		return answerError(err)
	}
	s.options.Changed()
	return nil
}

// checkRuntime asks the provider about the token, and notes what it says.
func (s *Service) checkRuntime(ctx context.Context, c *runtimeCredential) error {
	provider, err := s.provider(ctx, providerChoice{kind: c.kind, apiURL: c.apiURL, clear: c.held, authorities: []byte(c.authorities)})
	if err != nil {
		c.status = statusOf(gitprovider.TokenReport{}, err, s.options.Now())
		return err
	}
	report, err := provider.Check(ctx, gitprovider.RuntimeToken)
	c.status = statusOf(report, err, s.options.Now())
	return err
}

// merge is what is stored with what is given.
func (s *Service) merge(ctx context.Context, given *runtimev1.SetRuntimeCredentialsRequest) (*runtimeCredential, error) {
	kind, apiURL, err := s.target("", "")
	if err != nil {
		return nil, err
	}
	c, err := s.loadRuntime(ctx)
	if err != nil {
		return nil, err
	}
	if c == nil || c.kind != kind || c.apiURL != apiURL {
		c = &runtimeCredential{} // a token is never sent to another provider
	}
	c.kind, c.apiURL = kind, apiURL
	if text := strings.TrimSpace(given.GetToken()); text != "" {
		c.held = held{Token: secret.New(text), Username: strings.TrimSpace(given.GetUsername())}
	}
	if c.Token.IsZero() || len(c.Token.Reveal()) > maxTokenBytes {
		return nil, invalid("give the Git token of the runtime")
	}
	if text := strings.TrimSpace(given.GetSshPrivateKey()); text != "" {
		if err := checkKey(text); err != nil {
			return nil, err
		}
		c.sshKey = secret.New(text + "\n")
	}
	host, _, err := gitHost(apiURL, s.settings().GetSharedRepository())
	if err != nil {
		return nil, answerError(err)
	}
	if text := strings.TrimSpace(given.GetKnownHosts()); text != "" {
		if c.knownHosts, err = checkKnownHosts(text, host); err != nil {
			return nil, err
		}
	}
	if !c.sshKey.IsZero() && c.knownHosts == "" && wellKnownHost(hostName(host)) == "" {
		book, err := s.book(ctx)
		if err != nil {
			return nil, err
		}
		if !knows(string(book.KnownHosts()), hostName(host)) {
			return nil, invalid("the SSH key of %s is not known: give its lines of ssh-keyscan as the known hosts", hostName(host))
		}
	}
	if text := strings.TrimSpace(given.GetCertificateAuthorities()); text != "" {
		if c.authorities, err = checkAuthorities(text); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// checkKey refuses a key that nobody could use. Errors of the parser are not
// told: they could have parts of the key.
func checkKey(text string) error {
	_, err := ssh.ParsePrivateKey([]byte(text + "\n"))
	if _, locked := err.(*ssh.PassphraseMissingError); locked { //nolint:errorlint // it is never wrapped
		return invalid("the SSH key has a passphrase: use one without")
	}
	if err != nil {
		return invalid("the SSH key cannot be read: paste the whole private key, in the form of OpenSSH or PEM")
	}
	return nil
}

// GetRuntimeCredentials implements IntegrationService.
func (s *Service) GetRuntimeCredentials(ctx context.Context, request *connect.Request[runtimev1.GetRuntimeCredentialsRequest]) (*connect.Response[runtimev1.GetRuntimeCredentialsResponse], error) {
	if _, err := admin(ctx); err != nil {
		return nil, err
	}
	c, err := s.loadRuntime(ctx)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return connect.NewResponse(&runtimev1.GetRuntimeCredentialsResponse{}), nil
	}
	if request.Msg.GetCheck() {
		if err := s.recheckRuntime(ctx, c); err != nil {
			return nil, answerError(err)
		}
	}
	return connect.NewResponse(&runtimev1.GetRuntimeCredentialsResponse{
		Configured: true, Status: c.status.shown(s.options.Runtime), Ssh: !c.sshKey.IsZero(),
	}), nil
}
