package integration

import (
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
	// maxUsers keep a Secret below the size that the API server takes.
	maxUsers = 500
)

// Who may have a token at an integration.
const (
	sharingAll    = "all-users"
	sharingAdmins = "admins"
)

func labels(kind string) map[string]string {
	return map[string]string{typeLabel: kind, "app.kubernetes.io/managed-by": "slipway"}
}

// record is an integration as it is stored.
type record struct {
	name     string
	Provider string `json:"provider"`
	APIURL   string `json:"apiURL"`
	Sharing  string `json:"sharing"`

	users map[string]tokenEntry
}

// tokenEntry is a user's token as it is stored.
type tokenEntry struct {
	User   string      `json:"user"`
	Email  string      `json:"email,omitempty"`
	Sealed []byte      `json:"sealed"`
	Status statusEntry `json:"status"`
}

// statusEntry is what is known of a token. Nothing in it is secret.
type statusEntry struct {
	Login     string    `json:"login,omitempty"`
	State     string    `json:"state"`
	Message   string    `json:"message,omitempty"`
	Kind      string    `json:"kind,omitempty"`
	Missing   []string  `json:"missing,omitempty"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	CheckedAt time.Time `json:"checkedAt,omitzero"`
}

// held is a token in the clear, for as long as it is needed.
type held struct {
	Token, Refresh secret.Text
	Username       string
	ExpiresAt      time.Time
}

// plainToken is what is sealed.
type plainToken struct {
	Token     string    `json:"token"`
	Refresh   string    `json:"refresh,omitempty"`
	Username  string    `json:"username,omitempty"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}

func (h held) encode() ([]byte, error) {
	return json.Marshal(plainToken{Token: h.Token.Reveal(), Refresh: h.Refresh.Reveal(), Username: h.Username, ExpiresAt: h.ExpiresAt})
}

func decodeHeld(text []byte) (held, error) {
	var plain plainToken
	if json.Unmarshal(text, &plain) != nil {
		return held{}, errSeal // the text of the error could have part of the token
	}
	return held{Token: secret.New(plain.Token), Refresh: secret.New(plain.Refresh), Username: plain.Username, ExpiresAt: plain.ExpiresAt}, nil
}

func (r *record) binding(user string) binding {
	return binding{Purpose: "user-token", Integration: r.name, User: user, Provider: r.Provider, APIURL: r.APIURL}
}

func userField(user string) string {
	hash := sha256.Sum256([]byte(user))
	return userPrefix + hex.EncodeToString(hash[:16])
}

// checkName refuses names that are no part of a Secret's name, or are taken.
func checkName(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 || len(name) > maxName {
		return invalid("the name of an integration has lower-case letters, digits and dashes, at most %d", maxName)
	}
	if slices.Contains([]string{"key", "runtime"}, name) || strings.HasPrefix(name, "runtime-") {
		return invalid("an integration cannot have the name %q: choose another", name)
	}
	return nil
}

// target reads provider and API URL, with what the account says for what is
// missing.
func (s *Service) target(provider, apiURL string) (gitprovider.Kind, string, error) {
	settings := s.settings()
	if provider == "" {
		provider = settings.GetProvider()
	}
	if provider == "" {
		return "", "", invalid("name the Git provider: github, gitlab, bitbucket or bitbucket-server")
	}
	kind, err := gitprovider.ParseKind(provider)
	if err != nil {
		return "", "", answerError(err)
	}
	if apiURL == "" && string(kind) == settings.GetProvider() {
		apiURL = settings.GetApiUrl()
	}
	if kind == gitprovider.Bitbucket && apiURL != "" {
		if parsed, err := url.Parse(apiURL); err != nil || parsed.Host == "" || parsed.User != nil {
			return "", "", invalid("the API URL cannot be read: write one such as https://api.bitbucket.org/2.0")
		}
		return kind, strings.TrimRight(apiURL, "/"), nil
	}
	apiURL, err = gitprovider.DefaultAPI(kind, apiURL)
	if err != nil {
		return "", "", answerError(err)
	}
	return kind, apiURL, nil
}

// load reads an integration. The default one exists as soon as the account has a
// provider.
func (s *Service) load(ctx context.Context, name string) (*record, error) {
	if name == "" {
		name = defaultName
	}
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

func parseRecord(name string, found *corev1.Secret) (*record, error) {
	r := &record{name: name, users: map[string]tokenEntry{}}
	if found.Labels[typeLabel] != "git" || json.Unmarshal(found.Data[settingsField], r) != nil {
		return nil, precondition("the Secret %s is not a Git integration: delete it, and add the integration again", found.Name)
	}
	for field, text := range found.Data {
		var one tokenEntry
		if !strings.HasPrefix(field, userPrefix) || json.Unmarshal(text, &one) != nil || userField(one.User) != field {
			continue // what is at another user's place is nobody's
		}
		r.users[one.User] = one
	}
	return r, nil
}

// create stores a new integration, or gives the one that is there when it is the
// same.
func (s *Service) create(ctx context.Context, r *record) (*record, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	named := labels("git")
	named[nameLabel] = r.name
	_, err = s.secrets().Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secretPrefix + r.name, Labels: named},
		Data:       map[string][]byte{settingsField: text},
	}, metav1.CreateOptions{})
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
		r.users = map[string]tokenEntry{}
	}
	return r, nil
}

// patchUser sets or, with nil, removes one user's entry and touches no other.
func (s *Service) patchUser(ctx context.Context, r *record, user string, one *tokenEntry) error {
	var value any
	if one != nil {
		text, err := json.Marshal(one)
		if err != nil {
			return err
		}
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

// putToken seals a token for its user and stores it.
func (s *Service) putToken(ctx context.Context, r *record, one tokenEntry, clear held) error {
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

// openToken is the token of a user in the clear.
func (s *Service) openToken(ctx context.Context, r *record, user string) (held, error) {
	one, found := r.users[user]
	if !found {
		return held{}, precondition("you have no Git token for the integration %s: register one with slipway integration git register %s", r.name, r.name)
	}
	seal, err := s.sealer(ctx)
	if err != nil {
		return held{}, err
	}
	text, err := seal.open(one.Sealed, r.binding(user))
	if err != nil {
		return held{}, precondition("%w", err)
	}
	return decodeHeld(text)
}
