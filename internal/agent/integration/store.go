package integration

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/secret"
)

// Labels of our Secrets.
const (
	// typeLabel distinguishes the Secrets of this package; nameLabel has the
	// name of an integration.
	typeLabel = "slipway.dev/integration-type"
	nameLabel = "slipway.dev/integration-name"
)

// Names and fields of the Secret of an integration.
const (
	defaultName   = "default"
	secretPrefix  = "slipway-git-"
	settingsField = "integration"
	userPrefix    = "user."
	maxName       = 40
	// maxUsers keeps a Secret below the size limit of the API server.
	maxUsers = 500
)

// Who may store a token at an integration.
const (
	// sharingAll permits every user of the account, sharingAdmins only admins.
	sharingAll    = "all-users"
	sharingAdmins = "admins"
)

// labels returns the labels of a Secret of some type. The type also protects
// Secrets of others with our prefix from being read as integrations.
func labels(kind string) map[string]string {
	return map[string]string{typeLabel: kind, "app.kubernetes.io/managed-by": "slipway"}
}

// record is a stored integration. The settings are one field of its Secret, and
// each user's token is another.
type record struct {
	// name is part of the Secret's name and is not stored again.
	name     string
	Provider string `json:"provider"`
	APIURL   string `json:"apiURL"`
	Sharing  string `json:"sharing"`

	// users are the stored tokens by the user's id.
	users map[string]storedToken
}

// storedToken is the token of a user as it is stored.
type storedToken struct {
	// User is stored to detect a token that was copied to another field.
	User  string `json:"user"`
	Email string `json:"email,omitempty"`
	// Sealed is the encrypted token, bound to user, integration and provider.
	Sealed []byte      `json:"sealed"`
	Status tokenStatus `json:"status"`
}

// tokenStatus is the result of the last check of a token. It contains no
// secret.
type tokenStatus struct {
	// Login is the account at the provider.
	Login string `json:"login,omitempty"`
	// State and Message are shown in the console.
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
	Kind    string `json:"kind,omitempty"`
	// Missing are the scopes that the token lacks.
	Missing   []string  `json:"missing,omitempty"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	CheckedAt time.Time `json:"checkedAt,omitzero"`
}

// clearToken is a decrypted token. It is kept only while it is used.
// secret.Text keeps it out of logs and of formatted errors.
type clearToken struct {
	// Refresh is set for OAuth tokens only.
	Token, Refresh secret.Text
	// Username is needed by some providers beside the token.
	Username  string
	ExpiresAt time.Time
}

// plainToken is the text that is sealed.
type plainToken struct {
	Token     string    `json:"token"`
	Refresh   string    `json:"refresh,omitempty"`
	Username  string    `json:"username,omitempty"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}

// encode returns the text to seal.
func (h clearToken) encode() ([]byte, error) {
	return json.Marshal(plainToken{Token: h.Token.Reveal(), Refresh: h.Refresh.Reveal(), Username: h.Username, ExpiresAt: h.ExpiresAt})
}

// decodeClearToken reads an opened text.
func decodeClearToken(text []byte) (clearToken, error) {
	var plain plainToken
	if json.Unmarshal(text, &plain) != nil {
		return clearToken{}, errSeal // the text of the error could have part of the token
	}
	return clearToken{Token: secret.New(plain.Token), Refresh: secret.New(plain.Refresh), Username: plain.Username, ExpiresAt: plain.ExpiresAt}, nil
}

// binding ties a user's token to user, integration, provider and address, so
// that changing any of them makes it unreadable.
func (r *record) binding(user string) binding {
	return binding{Purpose: "user-token", Integration: r.name, User: user, Provider: r.Provider, APIURL: r.APIURL}
}

// userField is the field of a user's token: a hash, because ids have characters
// that keys of a Secret cannot have.
func userField(user string) string {
	hash := sha256.Sum256([]byte(user))
	return userPrefix + hex.EncodeToString(hash[:16])
}

// checkName refuses names that cannot be part of a Secret's name, or are
// reserved.
func checkName(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 || len(name) > maxName {
		return invalid("the name of an integration has lower-case letters, digits and dashes, at most %d", maxName)
	}
	if slices.Contains([]string{"key", "runtime"}, name) || strings.HasPrefix(name, "runtime-") {
		return invalid("an integration cannot have the name %q: choose another", name)
	}
	return nil
}

// target returns provider and API address, with the account's settings as
// defaults.
func (s *Service) target(provider, apiURL string) (gitprovider.Kind, string, error) {
	settings := s.settings()
	if provider == "" {
		provider = settings.GetProvider()
	}
	if provider == "" {
		return "", "", invalid("name the Git provider: github, gitlab, bitbucket, bitbucket-server, or git for another server")
	}
	kind, err := gitprovider.ParseKind(provider)
	if err != nil {
		return "", "", toConnectError(err)
	}
	// The address of the account belongs to its provider; for another provider
	// it would send the token to the wrong host.
	if apiURL == "" && string(kind) == settings.GetProvider() {
		apiURL = settings.GetApiUrl()
	}
	// Bitbucket Cloud has one API; another address is a proxy of it and is kept
	// as it is.
	if kind == gitprovider.Bitbucket && apiURL != "" {
		if parsed, err := url.Parse(apiURL); err != nil || parsed.Host == "" || parsed.User != nil {
			return "", "", invalid("the API URL cannot be read: write one such as https://api.bitbucket.org/2.0")
		}
		return kind, strings.TrimRight(apiURL, "/"), nil
	}
	apiURL, err = gitprovider.DefaultAPI(kind, apiURL)
	if err != nil {
		return "", "", toConnectError(err)
	}
	return kind, apiURL, nil
}

// load reads an integration. The default one is created as soon as the account
// has a provider.
func (s *Service) load(ctx context.Context, name string) (*record, error) {
	// Requests without a name mean the default integration.
	name = cmp.Or(name, defaultName)
	if err := checkName(name); err != nil {
		return nil, err
	}
	found, err := s.secrets().Get(ctx, secretPrefix+name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && name == defaultName && s.settings().GetProvider() != "" {
		kind, apiURL, err := s.target("", "")
		if err != nil {
			return nil, err
		}
		return s.create(ctx, &record{name: name, Provider: string(kind), APIURL: apiURL, Sharing: sharingAll})
	}
	if apierrors.IsNotFound(err) {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("there is no Git integration %s: add it first", name))
	}
	if err != nil {
		return nil, storeError("read the Secret", secretPrefix+name, err)
	}
	return parseRecord(name, found)
}

// parseRecord reads an integration from its Secret. A token in the field of
// another user is skipped: it was copied there.
func parseRecord(name string, found *corev1.Secret) (*record, error) {
	r := &record{name: name, users: map[string]storedToken{}}
	// Another Secret may have a name with our prefix.
	if found.Labels[typeLabel] != "git" || json.Unmarshal(found.Data[settingsField], r) != nil {
		return nil, precondition("the Secret %s is not a Git integration: delete it, and add the integration again", found.Name)
	}
	for field, text := range found.Data {
		var one storedToken
		if !strings.HasPrefix(field, userPrefix) || json.Unmarshal(text, &one) != nil || userField(one.User) != field {
			continue // copied or damaged, see above
		}
		r.users[one.User] = one
	}
	return r, nil
}

// create stores a new integration, or returns the existing one if its settings
// are the same.
func (s *Service) create(ctx context.Context, r *record) (*record, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	// The name is a label too, so that integrations can be listed.
	named := labels("git")
	named[nameLabel] = r.name
	_, err = s.secrets().Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secretPrefix + r.name, Labels: named},
		Data:       map[string][]byte{settingsField: text},
	}, metav1.CreateOptions{})
	// Two replicas, or two requests, may create the same integration.
	if apierrors.IsAlreadyExists(err) {
		there, err := s.load(ctx, r.name)
		if err != nil {
			return nil, err
		}
		if there.Provider != r.Provider || there.APIURL != r.APIURL || there.Sharing != r.Sharing {
			return nil, connect.NewError(connect.CodeAlreadyExists, fmt.Errorf("there is a Git integration %s with other settings: edit it, or remove it first", r.name))
		}
		return there, nil
	}
	if err != nil {
		return nil, storeError("make the Secret", secretPrefix+r.name, err)
	}
	if r.users == nil {
		r.users = map[string]storedToken{}
	}
	return r, nil
}

// patchUser sets or, with nil, removes the field of one user by a merge patch,
// so that concurrent changes of other users do not conflict.
func (s *Service) patchUser(ctx context.Context, r *record, user string, one *storedToken) error {
	var value any
	if one != nil {
		text, err := json.Marshal(one)
		if err != nil {
			return err
		}
		// The API server decodes base64, and json.Marshal of []byte encodes it.
		value = text
	}
	patch, err := json.Marshal(map[string]any{"data": map[string]any{userField(user): value}})
	if err != nil {
		return err
	}
	name := secretPrefix + r.name
	if _, err := s.secrets().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return storeError("change the Secret", name, err)
	}
	return nil
}

// putToken seals the token of a user and stores it.
func (s *Service) putToken(ctx context.Context, r *record, one storedToken, clear clearToken) error {
	seal, err := s.sealer(ctx)
	if err != nil {
		return err
	}
	text, err := clear.encode()
	if err != nil {
		return err
	}
	one.Sealed = seal.seal(text, r.binding(one.User))
	return s.patchUser(ctx, r, one.User, &one)
}

// openToken decrypts the token of a user. Errors of decryption are shown to the
// user, who can register the token again.
func (s *Service) openToken(ctx context.Context, r *record, user string) (clearToken, error) {
	// The token is decrypted only for the request that needs it.
	one, found := r.users[user]
	if !found {
		return clearToken{}, precondition("you have no Git token for the integration %s: register one with slipway integration git register %s --runtime %s --token-file FILE", r.name, r.name, s.options.Runtime)
	}
	seal, err := s.sealer(ctx)
	if err != nil {
		return clearToken{}, err
	}
	text, err := seal.open(one.Sealed, r.binding(user))
	if err != nil {
		return clearToken{}, precondition("%w", err)
	}
	return decodeClearToken(text)
}
