package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	ociremote "oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/gitops/source/remote"
)

// Bounds of responses of a registry.
const (
	maxManifestBytes = 4 << 20
	maxTags          = 100_000
)

// ociArtifact is the one layer of an artifact that has files.
type ociArtifact struct {
	Manifest string // digest of the manifest, with sha256:
	Layer    string // digest of the layer, hexadecimal
	Chart    bool   // the files are in a folder of the chart's name
}

// resolveOCI finds a chart, or other files, in a registry. A chart has its
// version as the revision, as in a Helm repository; other artifacts have the
// digest of the manifest, because their tags move.
func (c *charts) resolveOCI(ctx context.Context, source *chartSource, maxAge time.Duration) (*Resolved, error) {
	reference, err := registryReference(source)
	if err != nil {
		return nil, err
	}
	path, reason := cleanPath(source.Path)
	if reason != "" {
		return nil, errorf(Invalid, "", "the path %q %s: write a folder of the artifact", source.Path, reason)
	}
	tag, err := c.tag(ctx, source, reference, maxAge)
	if err != nil {
		return nil, err
	}
	found, err := c.artifact(ctx, source, reference, tag, maxAge)
	if err != nil {
		return nil, err
	}
	store, err := c.unpack(archive{source.key.folder(), found.Layer}, found.Chart)
	if err != nil {
		return nil, err
	}
	if found.Chart {
		return &Resolved{Revision: tagVersion(tag), Store: store, Path: "", Chart: true}, nil
	}
	return &Resolved{Revision: found.Manifest, Store: store, Path: path}, nil
}

// registryReference is the repository of the registry, without a tag.
func registryReference(source *chartSource) (registry.Reference, error) {
	const what = "write an address such as oci://registry.example.com/team/app"
	at := source.key.address
	// A scheme alone must not turn off TLS; the Secret does that explicitly.
	if at.Scheme == address.HTTP {
		return registry.Reference{}, errorf(Invalid, "", "a registry without TLS is named in the Secret by insecureOCIForceHttp: %s", what)
	}
	text := strings.Trim(at.HostPort()+"/"+at.Path, "/")
	if source.Chart != "" {
		if problem := checkChartName(source.Chart); problem != nil {
			return registry.Reference{}, problem
		}
		text += "/" + source.Chart
	}
	reference, err := registry.ParseReference(text)
	if err != nil || reference.Reference != "" || at.Scheme == address.SSH {
		return registry.Reference{}, errorf(Invalid, "", "it is not an address of a repository in a registry: %s", what)
	}
	return reference, nil
}

// tagVersion is the version that a tag stands for: tags may have no plus.
func tagVersion(tag string) string { return strings.ReplaceAll(tag, "_", "+") }

// versionTag is the tag of a version: a plus is not allowed in tags, and Helm
// writes an underscore in its place.
func versionTag(version string) string { return strings.ReplaceAll(version, "+", "_") }

// tag finds the tag or the digest that a revision names. An empty revision and
// HEAD select the highest version among the tags.
func (c *charts) tag(ctx context.Context, source *chartSource, reference registry.Reference, maxAge time.Duration) (string, error) {
	revision := source.TargetRevision
	exact := reference
	exact.Reference = versionTag(revision)
	// A tag or digest needs no list of tags, which is expensive in large
	// registries.
	if revision != "" && revision != "HEAD" && constraintOf(revision) == nil {
		if err := exact.ValidateReference(); err != nil {
			return "", errorf(Invalid, "", "the revision %q is neither a tag, a digest nor a range of versions", revision)
		}
		return exact.Reference, nil
	}
	tags, err := c.tags(ctx, source, reference, maxAge)
	if err != nil {
		return "", err
	}
	versions := make([]string, len(tags))
	for i, tag := range tags {
		versions[i] = tagVersion(tag)
	}
	version, problem := selectVersion(revision, versions)
	if problem != nil {
		return "", problem
	}
	return versionTag(version), nil
}

// tags returns all tags of a repository, from the cache if it is younger than
// maxAge. The key of the request has the serial number of the repository, so
// that a call after invalidate does not join a request from before.
func (c *charts) tags(ctx context.Context, source *chartSource, reference registry.Reference, maxAge time.Duration) ([]string, error) {
	c.mu.Lock()
	cached := c.repository(source.key)
	tags, at := cached.tags, cached.tagsAt
	c.mu.Unlock()
	if maxAge > 0 && !at.IsZero() && time.Since(at) <= maxAge {
		return tags, nil
	}
	return doOnce(ctx, c, fmt.Sprintf("tags %d", cached.serial), source.name(), func(ctx context.Context) ([]string, error) {
		began := time.Now()
		var tags []string
		err := c.exchange(ctx, "tags", source, reference, func(ctx context.Context, r *ociremote.Repository) (int64, error) {
			return 0, r.Tags(ctx, "", func(page []string) error {
				if tags = append(tags, page...); len(tags) > maxTags {
					return errorf(Refused, "", "it has more than %d tags", maxTags)
				}
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		cached.tags, cached.tagsAt = tags, began
		c.resized(source.key, cached)
		return tags, nil
	})
}

// artifact resolves a tag to the layer with the files, and ensures that the
// layer is on the disk. A digest that is cached needs no request, because its
// content cannot change.
func (c *charts) artifact(ctx context.Context, source *chartSource, reference registry.Reference, tag string, maxAge time.Duration) (ociArtifact, error) {
	c.mu.Lock()
	cached := c.repository(source.key)
	known, found := cached.digests[tag]
	c.mu.Unlock()
	// A digest never changes, so that its age does not matter.
	isDigest := strings.Contains(tag, ":")
	if found && c.cache.has(projectOf(ctx), archive{source.key.folder(), known.found.Layer}) && (isDigest || (maxAge > 0 && time.Since(known.at) <= maxAge)) {
		return known.found, nil
	}
	return doOnce(ctx, c, fmt.Sprintf("artifact %d %s", cached.serial, tag), source.name(), func(ctx context.Context) (ociArtifact, error) {
		began := time.Now()
		var artifact ociArtifact
		err := c.exchange(ctx, "chart", source, reference, func(ctx context.Context, r *ociremote.Repository) (int64, error) {
			var size int64
			var err error
			artifact, size, err = c.pull(ctx, r, source.key.folder(), tag)
			return size, err
		})
		if err != nil {
			return ociArtifact{}, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		// Dropping all of them is simple and costs one request each.
		if len(cached.digests) >= maxTagDigests {
			clear(cached.digests)
		}
		cached.digests[tag] = tagDigest{found: artifact, at: began}
		c.resized(source.key, cached)
		return artifact, nil
	})
}

// pull reads the manifest of a tag and, if it is not there, the layer. The
// manifest is verified against its digest by the client, and the layer by the
// cache.
func (c *charts) pull(ctx context.Context, r *ociremote.Repository, owner, tag string) (ociArtifact, int64, error) {
	descriptor, reader, err := r.Manifests().FetchReference(ctx, tag)
	if err != nil {
		return ociArtifact{}, 0, err
	}
	defer func() { _ = reader.Close() }()
	if descriptor.Size > maxManifestBytes {
		return ociArtifact{}, 0, errorf(Refused, "", "the manifest of %s is too large", tag)
	}
	text, err := content.ReadAll(reader, descriptor)
	if err != nil {
		return ociArtifact{}, 0, err
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(text, &manifest); err != nil {
		return ociArtifact{}, 0, errorf(Invalid, "", "%s has no manifest that can be read", tag)
	}
	layer, isChart, err := layerOf(manifest, tag)
	if err != nil {
		return ociArtifact{}, 0, err
	}
	digest, isSHA := strings.CutPrefix(layer.Digest.String(), "sha256:")
	if !isSHA || layer.Digest.Validate() != nil {
		return ociArtifact{}, 0, errorf(Invalid, "", "%s has a layer without a sha256 digest", tag)
	}
	found := ociArtifact{Manifest: descriptor.Digest.String(), Layer: digest, Chart: isChart}
	if c.cache.has(projectOf(ctx), archive{owner, digest}) {
		return found, 0, nil
	}
	// The declared size is checked before the download; the cache checks the
	// real one while it streams.
	limit := c.sources.options.Limits.ChartBytes
	if layer.Size > limit {
		return ociArtifact{}, 0, errorf(Refused, "", "%s has %d bytes, the limit is %d", tag, layer.Size, limit)
	}
	blob, err := r.Blobs().Fetch(ctx, layer)
	if err != nil {
		return ociArtifact{}, 0, err
	}
	defer func() { _ = blob.Close() }()
	counted := &countingReader{from: blob}
	_, err = c.cache.put(projectOf(ctx), counted, archive{owner, digest}, limit)
	return found, counted.count, err
}

// exchange runs one exchange with a registry. The client has no cache of tokens
// beyond one exchange: a credential that is withdrawn must stop working.
func (c *charts) exchange(ctx context.Context, what string, source *chartSource, reference registry.Reference, do func(context.Context, *ociremote.Repository) (int64, error)) error {
	return c.sources.exchange(ctx, what, source.name(), func(ctx context.Context) (int64, error) {
		access, err := c.sources.access(ctx, source.key.cacheKey, reference.Host())
		if err != nil {
			return 0, err
		}
		connections, err := remote.HTTPClient(access, source.key.address)
		if err != nil {
			return 0, err
		}
		defer connections.CloseIdleConnections()
		client := &auth.Client{Client: connections, Cache: auth.NewCache(), Header: http.Header{"User-Agent": {"slipway"}}}
		if user, password, ok := access.Credential.Basic(); ok {
			client.Credential = auth.StaticCredential(reference.Host(), auth.Credential{Username: user, Password: password.Reveal()})
		} else if !access.Credential.BearerToken.IsZero() {
			client.Credential = auth.StaticCredential(reference.Host(), auth.Credential{AccessToken: access.Credential.BearerToken.Reveal()})
		}
		size, err := do(ctx, &ociremote.Repository{
			Client: client, Reference: reference, PlainHTTP: access.Credential.InsecureOCIForceHTTP,
			MaxMetadataBytes: maxManifestBytes, TagListPageSize: 1000,
		})
		return size, registryError(ctx, err, access.Credential.HasIdentity())
	})
}

// registryError converts an error of the registry client. Its texts may contain
// addresses with credentials, so that they are not passed on.
func registryError(ctx context.Context, err error, identified bool) error {
	var problem *Error
	var response *errcode.ErrorResponse
	switch {
	case err == nil, errors.As(err, &problem):
		return err
	case errors.As(err, &response):
		if status := remote.CheckStatus(&http.Response{StatusCode: response.StatusCode}, identified); status != nil {
			return status
		}
	case errors.Is(err, errdef.ErrNotFound):
		return errorf(NotFound, "", "there is no such tag or repository: check the address and the revision")
	case errors.Is(err, content.ErrMismatchedDigest), errors.Is(err, errdef.ErrSizeExceedsLimit), errors.Is(err, content.ErrTrailingData):
		return errorf(Refused, "", "the registry sends other content than it declares")
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return errorf(Denied, "", "the registry requires a user: add a Secret with the label argocd.argoproj.io/secret-type, a username and a password")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errorf(Unreachable, "", "the response ends too early")
	}
	return remote.ConnectionFailure(ctx, err)
}

// layerOf is the layer that has files: a chart's, or the only archive.
// Signatures and attestations can be further layers; they are no archives and
// are skipped.
func layerOf(m ocispec.Manifest, tag string) (found ocispec.Descriptor, isChart bool, err error) {
	for _, layer := range m.Layers {
		if layer.MediaType == "application/vnd.cncf.helm.chart.content.v1.tar+gzip" || layer.MediaType == "application/tar+gzip" {
			return layer, true, nil
		}
	}
	archives := slices.DeleteFunc(slices.Clone(m.Layers), func(l ocispec.Descriptor) bool {
		return !strings.HasSuffix(l.MediaType, ".tar+gzip") && !strings.HasSuffix(l.MediaType, ".tar")
	})
	if len(archives) != 1 {
		return ocispec.Descriptor{}, false, errorf(Invalid, "", "%s has %d layers with files, of %d: it must have exactly one, of a chart or of a tar archive", tag, len(archives), len(m.Layers))
	}
	return archives[0], false, nil
}
