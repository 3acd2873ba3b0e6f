package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
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
	fieldInstalled   = "installed"
)

// runtimeCredential is the runtime's credential for Git.
type runtimeCredential struct {
	clearToken
	// sshKey, knownHosts and authorities are optional. They are written to the
	// Secrets and ConfigMaps that the agent reads.
	sshKey      secret.Text
	knownHosts  string
	authorities string
	// kind and apiURL are the provider that the token belongs to.
	kind   gitprovider.Kind
	apiURL string
	// status is the result of the last check.
	status tokenStatus
	// installed identifies the last credential of the values that was stored,
	// also after an admin replaced it.
	installed string
	// version is the resourceVersion of the Secret, for updates that must not
	// overwrite a newer one.
	version string
}

// loadRuntime reads the credential of the runtime; nil if there is none.
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
		clearToken: clearToken{Token: secret.New(text(fieldToken)), Refresh: secret.New(text(fieldRefresh)), Username: text(fieldUsername)},
		sshKey:     secret.New(text(fieldSSHKey)), knownHosts: text(fieldKnownHosts), authorities: text(fieldAuthorities),
		kind: gitprovider.Kind(text(fieldProvider)), apiURL: text(fieldAPIURL), installed: text(fieldInstalled), version: found.ResourceVersion,
	}
	c.ExpiresAt, _ = time.Parse(time.RFC3339, text(fieldExpires))
	// An invalid status counts as none, and the token is checked again.
	_ = json.Unmarshal(found.Data[fieldStatus], &c.status)
	// Without a token the other fields are of no use.
	if c.Token.IsZero() {
		return nil, nil
	}
	return c, nil
}

// storeRuntime stores the credential: first the Secrets that the agent reads,
// then the Secret whose existence means that there is a credential. A failure
// in between leaves Secrets that the next attempt overwrites.
func (s *Service) storeRuntime(ctx context.Context, c *runtimeCredential) error {
	if err := s.writeArgoSecrets(ctx, c); err != nil {
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
		fieldRefresh: []byte(c.Refresh.Reveal()), fieldInstalled: []byte(c.installed),
	}
	if !c.ExpiresAt.IsZero() {
		data[fieldExpires] = []byte(c.ExpiresAt.UTC().Format(time.RFC3339))
	}
	return s.putSecret(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: runtimeSecret, Labels: labels("git-runtime")}, Data: data})
}

// putSecret creates a Secret or replaces its data. Annotations and labels of
// others stay.
func (s *Service) putSecret(ctx context.Context, wanted *corev1.Secret) error {
	for _, field := range slices.Collect(maps.Keys(wanted.Data)) {
		if len(wanted.Data[field]) == 0 {
			delete(wanted.Data, field)
		}
	}
	// Replicas may write at the same time; each attempt starts from the current
	// object.
	for range 5 {
		found, err := s.secrets().Get(ctx, wanted.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = s.secrets().Create(ctx, wanted, metav1.CreateOptions{})
		case err == nil:
			// The data is replaced as a whole: a field that is gone must not
			// stay.
			found.Data = wanted.Data
			if found.Labels == nil {
				found.Labels = map[string]string{}
			}
			maps.Copy(found.Labels, wanted.Labels)
			_, err = s.secrets().Update(ctx, found, metav1.UpdateOptions{})
		}
		if err == nil {
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return storeError("write the Secret", wanted.Name, err)
		}
	}
	return connect.NewError(connect.CodeAborted, fmt.Errorf("write the Secret %s: too many conflicting changes: try again", wanted.Name))
}

// SetRuntimeCredentials implements IntegrationService. Fields that are not
// given keep their value (R65, R66, R114).
func (s *Service) SetRuntimeCredentials(ctx context.Context, request *connect.Request[runtimev1.SetRuntimeCredentialsRequest]) (*connect.Response[runtimev1.SetRuntimeCredentialsResponse], error) {
	if _, err := requireAdmin(ctx); err != nil {
		return nil, err
	}
	wanted, err := s.merge(ctx, request.Msg)
	if err != nil {
		return nil, err
	}
	if err := s.checkAndStore(ctx, wanted, request.Msg.GetSkipValidation()); err != nil {
		return nil, err
	}
	return connect.NewResponse(&runtimev1.SetRuntimeCredentialsResponse{Status: wanted.status.message(s.options.Runtime)}), nil
}

// checkAndStore checks a credential with the provider and stores it. With skip
// it is stored even if the check fails.
func (s *Service) checkAndStore(ctx context.Context, wanted *runtimeCredential, skip bool) error {
	err := s.checkRuntime(ctx, wanted)
	// With skip the result of the check is stored and shown, but does not
	// matter.
	if !skip {
		if err != nil {
			return toConnectError(err)
		}
		if wanted.status.State != string(gitprovider.StateOK) {
			return precondition("the token is not stored: %s", wanted.status.Message)
		}
	}
	if err := s.storeRuntime(ctx, wanted); err != nil {
		return toConnectError(err)
	}
	// The Shared Configuration Repository may be readable now.
	s.options.Changed()
	return nil
}

// checkRuntime checks the token with the provider and sets the status.
func (s *Service) checkRuntime(ctx context.Context, c *runtimeCredential) error {
	provider, err := s.provider(ctx, providerChoice{kind: c.kind, apiURL: c.apiURL, clear: c.clearToken, authorities: []byte(c.authorities)})
	if err != nil {
		c.status = statusOf(gitprovider.TokenReport{}, err, s.options.Now())
		return err
	}
	report, err := provider.Check(ctx, gitprovider.RuntimeToken)
	c.status = statusOf(report, err, s.options.Now())
	return err
}

// merge returns the stored credential with the given fields. A credential of
// another provider is dropped: its token must not be sent to this one.
func (s *Service) merge(ctx context.Context, given *runtimev1.SetRuntimeCredentialsRequest) (*runtimeCredential, error) {
	// The provider is that of the account: a runtime has one.
	kind, apiURL, err := s.target("", "")
	if err != nil {
		return nil, err
	}
	c, err := s.loadRuntime(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case c == nil:
		c = &runtimeCredential{}
	case c.kind != kind || c.apiURL != apiURL:
		c = &runtimeCredential{installed: c.installed} // a token is never sent to another provider
	}
	c.kind, c.apiURL = kind, apiURL
	if text := strings.TrimSpace(given.GetToken()); text != "" {
		c.clearToken = clearToken{Token: secret.New(text), Username: strings.TrimSpace(given.GetUsername())}
	}
	// An SSH key alone is not enough: the API needs a token.
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
		return nil, toConnectError(err)
	}
	if text := strings.TrimSpace(given.GetKnownHosts()); text != "" {
		if c.knownHosts, err = checkKnownHosts(text, host); err != nil {
			return nil, err
		}
	}
	// Without a known host key the agent would refuse every SSH connection, so
	// it is required together with the SSH key.
	if !c.sshKey.IsZero() && c.knownHosts == "" && wellKnownHost(hostName(host)) == "" {
		book, err := s.loadCredentials(ctx)
		if err != nil {
			return nil, err
		}
		if !hasHost(string(book.KnownHosts()), hostName(host)) {
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

// checkKey refuses SSH keys that cannot be used. The errors of the parser are
// not returned, as they could contain parts of the key.
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

// GetRuntimeCredentials implements IntegrationService. It returns the status of
// the token and never the token.
func (s *Service) GetRuntimeCredentials(ctx context.Context, request *connect.Request[runtimev1.GetRuntimeCredentialsRequest]) (*connect.Response[runtimev1.GetRuntimeCredentialsResponse], error) {
	if _, err := requireAdmin(ctx); err != nil {
		return nil, err
	}
	c, err := s.loadRuntime(ctx)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return connect.NewResponse(&runtimev1.GetRuntimeCredentialsResponse{}), nil
	}
	// The stored status may be a day old.
	if request.Msg.GetCheck() {
		if err := s.recheckRuntime(ctx, c); err != nil {
			return nil, toConnectError(err)
		}
	}
	return connect.NewResponse(&runtimev1.GetRuntimeCredentialsResponse{
		Configured: true, Status: c.status.message(s.options.Runtime), Ssh: !c.sshKey.IsZero(),
	}), nil
}
