package integration

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"connectrpc.com/connect"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/gitprovider"
)

// errSharing is for a user who is no admin at an integration for admins.
var errSharing = errors.New("this integration is for admins of the account: use another one")

// connectErrorOr returns an error that has a code already, or else the result
// of instead.
func connectErrorOr(err error, instead func() error) error {
	if own, ok := errors.AsType[*connect.Error](err); ok {
		return own
	}
	return instead()
}

// providerChoice selects a provider's API and the token to use.
type providerChoice struct {
	// kind and apiURL select the API, and clear is the token to use.
	kind   gitprovider.Kind
	apiURL string
	// clear may be empty for requests without authentication.
	clear       clearToken
	authorities []byte // besides those that are stored
}

// provider returns the client of a provider's API.
func (s *Service) provider(ctx context.Context, choice providerChoice) (gitprovider.Provider, error) {
	authorities, err := s.authorities(ctx, choice.apiURL, choice.authorities)
	if err != nil {
		return nil, err
	}
	return gitprovider.New(gitprovider.Options{
		Kind: choice.kind, APIURL: choice.apiURL, Token: choice.clear.Token, Username: choice.clear.Username,
		Repository: s.settings().GetSharedRepository(), CAs: authorities, Outbound: s.options.Outbound, Now: s.options.Now,
	})
}

// authorities returns the certificate authorities of an API's host beside the
// system's.
func (s *Service) authorities(ctx context.Context, apiURL string, more []byte) ([]byte, error) {
	if len(more) > 0 {
		return more, nil
	}
	parsed, err := url.Parse(apiURL)
	if err != nil {
		return nil, invalid("the API URL cannot be read")
	}
	book, err := s.loadCredentials(ctx)
	if err != nil {
		return nil, err
	}
	return book.CertificateAuthorities(parsed.Host), nil
}

// loadCredentials reads all credentials of the control namespace, as the agent
// does.
func (s *Service) loadCredentials(ctx context.Context) (*credential.Store, error) {
	book := &credential.Store{}
	list, err := s.secrets().List(ctx, metav1.ListOptions{LabelSelector: credential.TypeLabel})
	if err != nil {
		return nil, storeError("list", "Secrets", err)
	}
	// Refused Secrets are skipped here: the agent reports them.
	for i := range list.Items {
		if given, err := credential.Parse(&list.Items[i]); err == nil {
			book.Set(types.NamespacedName{Namespace: list.Items[i].Namespace, Name: list.Items[i].Name}, given)
		}
	}
	for _, name := range []string{credential.KnownHostsConfigMap, credential.AuthoritiesConfigMap} {
		found, err := s.configMaps().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			found, err = &corev1.ConfigMap{}, nil
		}
		if err != nil {
			return nil, storeError("read the ConfigMap", name, err)
		}
		book.SetConfigMap(found)
	}
	return book, nil
}

// Access returns what opens a repository for a project: the credential that the
// agent would use. The runtime itself has no project, which is empty. A
// repository without a matching credential may be public.
func (s *Service) Access(ctx context.Context, project, repoURL string) (remote.Access, error) {
	at, err := remote.ParseAddress(repoURL)
	if err != nil {
		return remote.Access{}, err
	}
	book, err := s.loadCredentials(ctx)
	if err != nil {
		return remote.Access{}, err
	}
	// The same lookup as the agent's, so that a check here predicts the agent's
	// result.
	given, _ := book.For(at, project)
	return remote.Access{Credential: given, KnownHosts: book.KnownHosts(), Authorities: book.CertificateAuthorities(at.HostPort()), Outbound: s.options.Outbound}, nil
}

// gitHost returns the host of the provider's repositories, with a port that is
// not the default one, and whether it has no TLS. The Shared Configuration
// Repository has it; without one it follows from the API's address.
func gitHost(apiURL, sharedRepository string) (host string, plain bool, err error) {
	if sharedRepository != "" {
		address, err := gitprovider.ParseAddress(sharedRepository)
		if err != nil {
			return "", false, err
		}
		if !address.SSH {
			host = address.Host
			if address.Port != "" {
				host += ":" + address.Port
			}
			return host, address.Plain, nil
		}
	}
	parsed, err := url.Parse(apiURL)
	if err != nil || parsed.Host == "" {
		return "", false, invalid("the API URL of the Git provider cannot be read")
	}
	host = strings.ToLower(parsed.Host)
	// Public hosts have their API on a host of its own.
	for _, cloud := range []string{"github.com", "bitbucket.org"} {
		if host == "api."+cloud {
			host = cloud
		}
	}
	// GitHub Enterprise Cloud with data residency: api.TENANT.ghe.com.
	if tenant, found := strings.CutPrefix(host, "api."); found && strings.HasSuffix(tenant, ".ghe.com") {
		host = tenant
	}
	return host, parsed.Scheme == "http", nil
}
