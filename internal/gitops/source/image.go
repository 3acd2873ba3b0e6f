package source

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry"
	ociremote "oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/secret"
)

// maxConfigBytes bounds the configuration of an image.
const maxConfigBytes = 1 << 20

// maxImageLabels bounds the labels of an image that are kept.
const maxImageLabels = 64

// ImageRequest is a repository of images in a registry.
type ImageRequest struct {
	// Of is the repository, such as oci://registry.example.com/team/app. Its project
	// chooses the credential.
	Of project.Admitted
	// Username and Password open the registry in the place of that credential, if
	// they are set.
	Username string
	Password secret.Text
}

// ImageFacts is what is known of an image by its tag.
type ImageFacts struct {
	// Created is when it was built; zero if it does not say.
	Created time.Time
	Labels  map[string]string
}

// ImageTags lists the tags of a repository. A list that is younger than maxAge is used
// again, unless the request has its own password.
func (s *Sources) ImageTags(ctx context.Context, of ImageRequest, maxAge time.Duration) ([]string, error) {
	ctx = withProject(ctx, of.Of.Project())
	source, reference, err := s.imageSource(of)
	if err != nil {
		return nil, toError(err, of.Of.Address().String())
	}
	if of.Username == "" {
		tags, err := s.charts.tags(ctx, source, reference, maxAge)
		if err != nil {
			return nil, toError(err, source.name())
		}
		return slices.Clone(tags), nil
	}
	var tags []string
	err = s.imageExchange(ctx, "tags", of, func(ctx context.Context, r *ociremote.Repository) error {
		return r.Tags(ctx, "", func(page []string) error {
			if tags = append(tags, page...); len(tags) > maxTags {
				return errorf(Refused, "", "it has more than %d tags", maxTags)
			}
			return nil
		})
	})
	return tags, err
}

// Access returns what opens a Git repository for a project: the credential that is
// fetched with, to push with.
func (s *Sources) Access(ctx context.Context, of project.Admitted) (remote.Access, error) {
	access, err := s.access(ctx, s.keyOf(of), of.Address().HostPort())
	if err != nil {
		return remote.Access{}, toError(err, of.Address().String())
	}
	return access, nil
}

// WithAppToken gives access by the GitHub App of another credential the token of
// its installation; other access stays as it is.
func (s *Sources) WithAppToken(ctx context.Context, access remote.Access) (remote.Access, error) {
	return s.withAppToken(ctx, access)
}

// imageSource is the repository in the terms of charts.
func (s *Sources) imageSource(of ImageRequest) (*chartSource, registry.Reference, error) {
	source := &chartSource{ApplicationSource: of.Of.Source(), key: chartKey{cacheKey: s.keyOf(of.Of)}, admitted: of.Of}
	reference, err := registryReference(source)
	return source, reference, err
}

// ImageDigest returns the digest of a tag: that of the index for an image of several
// platforms.
func (s *Sources) ImageDigest(ctx context.Context, of ImageRequest, tag string) (digest string, err error) {
	err = s.imageExchange(withProject(ctx, of.Of.Project()), "tags", of, func(ctx context.Context, r *ociremote.Repository) error {
		found, err := r.Resolve(ctx, tag)
		digest = found.Digest.String()
		return err
	})
	return digest, err
}

// ImageFacts reads when an image was built, and its labels. Of an image of several
// platforms it reads the first of those that are given, or the first of all. It returns
// a NotFound error if the image has none of them.
func (s *Sources) ImageFacts(ctx context.Context, of ImageRequest, tag string, platforms []string) (facts ImageFacts, err error) {
	err = s.imageExchange(withProject(ctx, of.Of.Project()), "tags", of, func(ctx context.Context, r *ociremote.Repository) error {
		manifest, err := imageManifest(ctx, r, tag, platforms)
		if err != nil {
			return err
		}
		if manifest.Config.Size > maxConfigBytes {
			return errorf(Refused, "", "the configuration of %s is too large", tag)
		}
		text, err := content.FetchAll(ctx, r.Blobs(), manifest.Config)
		if err != nil {
			return err
		}
		var image ocispec.Image
		if err := json.Unmarshal(text, &image); err != nil {
			return errorf(Invalid, "", "%s has no configuration that can be read", tag)
		}
		if len(platforms) > 0 && image.OS != "" && !slices.ContainsFunc(platforms, func(p string) bool { return isPlatform(&image.Platform, p) }) {
			return errorf(NotFound, "", "%s is for none of %s", tag, strings.Join(platforms, ", "))
		}
		if image.Created != nil {
			facts.Created = *image.Created
		}
		if len(image.Config.Labels) <= maxImageLabels {
			facts.Labels = image.Config.Labels
		}
		return nil
	})
	return facts, err
}

// imageManifest reads the manifest of a tag, through an index.
func imageManifest(ctx context.Context, r *ociremote.Repository, reference string, platforms []string) (ocispec.Manifest, error) {
	// An index has manifests, which are no indexes.
	for range 2 {
		descriptor, text, err := fetchManifest(ctx, r, reference)
		if err != nil {
			return ocispec.Manifest{}, err
		}
		switch descriptor.MediaType {
		case ocispec.MediaTypeImageIndex, "application/vnd.docker.distribution.manifest.list.v2+json":
			var index ocispec.Index
			if err := json.Unmarshal(text, &index); err != nil {
				return ocispec.Manifest{}, errorf(Invalid, "", "%s has no index that can be read", reference)
			}
			below, found := selectPlatform(index.Manifests, platforms)
			if !found {
				return ocispec.Manifest{}, errorf(NotFound, "", "%s is for none of %s", reference, strings.Join(platforms, ", "))
			}
			reference = below.Digest.String()
		default:
			var manifest ocispec.Manifest
			if err := json.Unmarshal(text, &manifest); err != nil || manifest.Config.Digest.Validate() != nil {
				return ocispec.Manifest{}, errorf(Invalid, "", "%s has no manifest that can be read", reference)
			}
			return manifest, nil
		}
	}
	return ocispec.Manifest{}, errorf(Invalid, "", "%s is an index of indexes", reference)
}

// fetchManifest reads a manifest or an index.
func fetchManifest(ctx context.Context, r *ociremote.Repository, reference string) (ocispec.Descriptor, []byte, error) {
	descriptor, reader, err := r.Manifests().FetchReference(ctx, reference)
	if err != nil {
		return ocispec.Descriptor{}, nil, err
	}
	defer func() { _ = reader.Close() }()
	if descriptor.Size > maxManifestBytes {
		return ocispec.Descriptor{}, nil, errorf(Refused, "", "the manifest of %s is too large", reference)
	}
	text, err := content.ReadAll(io.LimitReader(reader, maxManifestBytes+1), descriptor)
	return descriptor, text, err
}

// selectPlatform returns the first manifest for one of the platforms, in their order.
// Attestations have the platform unknown.
func selectPlatform(manifests []ocispec.Descriptor, platforms []string) (ocispec.Descriptor, bool) {
	real := slices.DeleteFunc(slices.Clone(manifests), func(m ocispec.Descriptor) bool {
		return m.Platform != nil && m.Platform.OS == "unknown"
	})
	for _, wanted := range platforms {
		for _, one := range real {
			if one.Platform != nil && isPlatform(one.Platform, wanted) {
				return one, true
			}
		}
	}
	if len(platforms) > 0 || len(real) == 0 {
		return ocispec.Descriptor{}, false
	}
	return real[0], true
}

// isPlatform reports whether a platform is os/architecture[/variant].
func isPlatform(p *ocispec.Platform, text string) bool {
	parts := strings.Split(strings.TrimSpace(text), "/")
	return len(parts) >= 2 && p.OS == parts[0] && p.Architecture == parts[1] && (len(parts) < 3 || p.Variant == parts[2])
}

// imageExchange runs one exchange with the registry of an image.
func (s *Sources) imageExchange(ctx context.Context, what string, of ImageRequest, do func(context.Context, *ociremote.Repository) error) error {
	source, reference, err := s.imageSource(of)
	if err != nil {
		return toError(err, of.Of.Address().String())
	}
	if of.Username == "" {
		err = s.charts.exchange(ctx, what, source, reference, func(ctx context.Context, r *ociremote.Repository) (int64, error) { return 0, do(ctx, r) })
	} else {
		err = s.exchange(ctx, what, source.name(), func(ctx context.Context) (int64, error) {
			r, closeIdle, err := s.imageRepository(ctx, of, source, reference)
			if err != nil {
				return 0, err
			}
			defer closeIdle()
			return 0, registryError(ctx, do(ctx, r), true)
		})
	}
	if err != nil {
		return toError(err, source.name())
	}
	return nil
}

// imageRepository is a client with a password of its own. Keys, authorities, proxy and the
// allowed addresses are still those of the registry.
func (s *Sources) imageRepository(ctx context.Context, of ImageRequest, source *chartSource, reference registry.Reference) (*ociremote.Repository, func(), error) {
	access, err := s.access(ctx, source.key.cacheKey, reference.Host())
	if err != nil {
		return nil, nil, err
	}
	access.Credential.Username, access.Credential.Password = of.Username, of.Password
	access.Credential.BearerToken = secret.Text{}
	connections, err := remote.HTTPClient(access, source.key.address)
	if err != nil {
		return nil, nil, err
	}
	client := &auth.Client{
		Client: connections, Cache: auth.NewCache(), Header: http.Header{"User-Agent": {"slipway"}},
		Credential: auth.StaticCredential(reference.Host(), auth.Credential{Username: of.Username, Password: of.Password.Reveal()}),
	}
	return &ociremote.Repository{
		Client: client, Reference: reference, PlainHTTP: access.Credential.InsecureOCIForceHTTP,
		MaxMetadataBytes: maxManifestBytes, TagListPageSize: 1000,
	}, connections.CloseIdleConnections, nil
}
