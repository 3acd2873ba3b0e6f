package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/gitops/source/helmindex"
	"slipway.dev/slipway/internal/gitops/source/remote"
)

// resolveHelm finds a chart in a Helm repository. The revision of the result is
// the version and not the range, so that a sync that is repeated renders the
// same chart.
func (c *charts) resolveHelm(ctx context.Context, source *chartSource, maxAge time.Duration) (*Resolved, error) {
	if scheme := source.key.address.Scheme; scheme != address.HTTPS && scheme != address.HTTP {
		return nil, errorf(Invalid, "", "it is not an address of a Helm repository: write one such as https://charts.example.com")
	}
	if problem := checkChartName(source.Chart); problem != nil {
		return nil, problem
	}
	entries, err := c.versionsOf(ctx, source, maxAge)
	if err != nil {
		return nil, err
	}
	// An index may list a version twice; Helm takes the first one.
	versions := make([]string, 0, len(entries))
	byVersion := map[string]helmindex.Entry{}
	for _, entry := range entries {
		if _, twice := byVersion[entry.Version]; !twice {
			versions = append(versions, entry.Version)
			byVersion[entry.Version] = entry
		}
	}
	version, problem := selectVersion(source.TargetRevision, versions)
	if problem != nil {
		problem.Message = fmt.Sprintf("the chart %s: %s", source.Chart, problem.Message)
		return nil, problem
	}
	found, err := c.archive(ctx, source, byVersion[version], maxAge <= 0)
	if err != nil {
		return nil, archiveError(err, source, version)
	}
	store, err := c.unpack(found, true)
	if err != nil {
		return nil, err
	}
	return &Resolved{Revision: version, Store: store, Chart: true}, nil
}

// archiveError is the error of an archive, which concerns its chart alone: an
// index can name any server for it, and the other charts of the repository must
// not wait for that one. An address that is not connected to is a refusal.
func archiveError(err error, source *chartSource, version string) error {
	var failure *Error
	if !errors.As(toError(err, source.name()), &failure) {
		return err
	}
	concerned := *failure
	concerned.Chart = source.Chart
	if exchange, ok := errors.AsType[*remote.Failure](err); ok && exchange.Forbidden {
		refused := &refusal.Refusal{
			Object: refusal.Object{Kind: "Chart", Name: source.Chart}, Field: "urls", Reason: refusal.NotAllowed,
			Message: fmt.Sprintf("the archive of version %s in the index: %s", version, exchange.Message),
		}
		concerned.Kind, concerned.Message, concerned.Err = Refused, refused.Error(), refused
	}
	return &concerned
}

// archive brings the archive of a version to the disk. An archive whose digest
// is in the index and on the disk needs no request. Without a digest it is
// fetched every time, as nothing shows whether it has changed. One that failed is
// requested again after a backoff, or now.
func (c *charts) archive(ctx context.Context, source *chartSource, entry helmindex.Entry, now bool) (archive, error) {
	wanted := strings.TrimPrefix(strings.ToLower(entry.Digest), "sha256:")
	if wanted != "" && !isDigest(wanted) {
		return archive{}, errorf(Invalid, "", "the index has no proper digest of %s %s", source.Chart, entry.Version)
	}
	at, err := source.archiveURL(entry)
	if err != nil {
		return archive{}, err
	}
	owner := source.key.folder()
	if known := (archive{owner, wanted}); c.cache.has(projectOf(ctx), known) {
		return known, nil
	}
	key := archiveKey{source.key, at.String()}
	if failure := c.archiveFailure(key); failure != nil && !now {
		return archive{}, failure
	}
	return doOnce(ctx, c, "archive "+owner+" "+at.String()+" "+wanted, source.name(), func(ctx context.Context) (archive, error) {
		var found archive
		err := c.sources.exchange(ctx, "chart", source.name(), func(ctx context.Context) (int64, error) {
			return c.get(ctx, source.key, at, http.Header{}, func(response *http.Response) (int64, error) {
				counted := &countingReader{from: response.Body}
				var err error
				found, err = c.cache.put(projectOf(ctx), counted, archive{owner, wanted}, c.sources.options.Limits.ChartBytes)
				return counted.count, err
			})
		})
		c.noteArchive(key, err)
		return found, err
	})
}

// archiveURL is the address of an archive that an index names. The author of an
// index can name any address, and those on the host of the repository get its
// credential: the project decides about an archive that is not below the
// repository.
func (s *chartSource) archiveURL(entry helmindex.Entry) (*url.URL, error) {
	if len(entry.URLs) == 0 {
		return nil, errorf(NotFound, "", "the index has no address of %s %s", s.Chart, entry.Version)
	}
	// Addresses are from the index, as if that were the page.
	at, err := s.key.address.URL().JoinPath("/").Parse(entry.URLs[0])
	if err != nil || (at.Scheme != address.HTTPS && at.Scheme != address.HTTP) {
		return nil, errorf(Invalid, "", "the index has no proper address of %s %s", s.Chart, entry.Version)
	}
	// Credentials in the index are not used: get adds those of the repository
	// for its own host.
	at.User = nil
	if err := s.admitted.CheckArchive(at); err != nil {
		return nil, errorf(Invalid, "", "the archive of %s %s in its index: %v", s.Chart, entry.Version, err)
	}
	return at, nil
}

// get requests a file of a Helm repository. Credentials go to the host of the
// repository only: an index may point to archives on any host.
func (c *charts) get(ctx context.Context, key chartKey, at *url.URL, header http.Header, use func(*http.Response) (int64, error)) (int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return 0, errorf(Invalid, "", "it is not an address of a Helm repository")
	}
	request.Header = mergeHeader(request.Header, header)
	return c.send(ctx, key, request, use)
}

// send sends a request with the credentials of a key, if it goes to the host of
// the key. A request that has a token already keeps it.
func (c *charts) send(ctx context.Context, key chartKey, request *http.Request, use func(*http.Response) (int64, error)) (int64, error) {
	base := key.address.URL()
	access, err := c.sources.access(ctx, key.cacheKey, request.URL.Host)
	if err != nil {
		return 0, err
	}
	identity := remote.IdentityOf(access.Credential)
	if request.URL.Host != base.Host || request.URL.Scheme != base.Scheme {
		// Another host, or another scheme, gets neither identity nor client
		// certificate.
		identity = remote.Identity{}
		access.Credential.ClientCertificate = ""
	}
	client, err := remote.HTTPClient(access, key.address)
	if err != nil {
		return 0, err
	}
	// Each request has a client of its own, because credentials and
	// authorities may have changed since the last one.
	defer client.CloseIdleConnections()
	request.Header.Set("User-Agent", "slipway")
	if request.Header.Get("Authorization") == "" {
		identity.Apply(request)
	}
	response, err := client.Do(request)
	if err != nil {
		// The url.Error has the address in its text, which can contain a
		// password.
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}
		return 0, remote.ConnectionFailure(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusNotModified {
		if err := remote.CheckStatus(response, !identity.IsZero()); err != nil {
			return 0, err
		}
	}
	size, err := use(response)
	if err != nil && ctx.Err() != nil {
		return size, remote.ConnectionFailure(ctx, err)
	}
	return size, err
}

// mergeHeader copies header fields, so that the caller's header is not shared
// between requests.
func mergeHeader(to, from http.Header) http.Header {
	maps.Copy(to, from)
	return to
}
