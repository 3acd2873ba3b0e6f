package images

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// concurrency is the number of blobs that are copied in parallel.
const concurrency = 3

// Mirror copies images to a private registry.
type Mirror struct {
	Registries *Registries
	// To is the registry with what comes before the repositories.
	To string
	// From is an OCI archive to take the images from; empty is the registries that
	// they name.
	From string
	// DryRun resolves the images and copies nothing.
	DryRun bool
}

// Copied is the result for one image.
type Copied struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Digest string `json:"digest"`
	// Present is set if the registry had it already.
	Present bool `json:"present"`
	// Blobs and Bytes are what was copied; what the registry had is not counted.
	Blobs int64 `json:"blobs"`
	Bytes int64 `json:"bytes"`
}

// Copy copies images with all their platforms, one after the other, and calls
// done for each. It stops at the first error; a repeated copy continues.
func (m Mirror) Copy(ctx context.Context, images []Image, done func(Copied)) error {
	for _, image := range images {
		copied, err := m.one(ctx, image.Reference)
		if err != nil {
			return err
		}
		done(copied)
	}
	return nil
}

// one copies one image and verifies it.
func (m Mirror) one(ctx context.Context, reference string) (Copied, error) {
	made := Copied{From: reference}
	target, err := Target(reference, m.To)
	if err != nil {
		return made, err
	}
	made.To = target
	to, err := parse(target)
	if err != nil {
		return made, err
	}
	from, name, err := m.source(ctx, reference)
	if err != nil {
		return made, err
	}
	// The root of an image with several platforms is its index.
	root, err := from.Resolve(ctx, name)
	if err != nil {
		return made, explain("find "+reference+m.inArchive(), err)
	}
	made.Digest = root.Digest.String()
	destination := m.Registries.repository(to)
	// The same digest under the target name is a complete copy: registries
	// accept a manifest only after its blobs.
	switch there, err := destination.Resolve(ctx, to.Reference); {
	case err == nil && there.Digest == root.Digest:
		made.Present = true
		return made, m.copySignature(ctx, from, root, to)
	case err != nil && !errors.Is(err, errdef.ErrNotFound):
		return made, explain("resolve at "+to.Host()+": "+target, err)
	}
	if m.DryRun {
		return made, nil
	}
	// Blobs are copied concurrently, so the counters are atomic.
	var blobs, bytes atomic.Int64
	options := oras.CopyOptions{CopyGraphOptions: oras.CopyGraphOptions{
		Concurrency: concurrency, MaxMetadataBytes: maxManifest,
		PostCopy: func(_ context.Context, copied ocispec.Descriptor) error {
			blobs.Add(1)
			bytes.Add(copied.Size)
			return nil
		},
	}}
	if _, err = oras.Copy(ctx, checked{from}, name, destination, to.Reference, options); err != nil {
		return made, explain("copy "+reference+" to "+target, err)
	}
	made.Blobs, made.Bytes = blobs.Load(), bytes.Load()
	return made, errors.Join(m.verify(ctx, to, made), m.copySignature(ctx, from, root, to))
}

// copySignature copies the signature of an image if it has one. cosign looks
// for it in the repository of the image, by a tag with its digest.
func (m Mirror) copySignature(ctx context.Context, from oras.ReadOnlyTarget, image ocispec.Descriptor, to registry.Reference) error {
	tag := "sha256-" + image.Digest.Encoded() + ".sig"
	switch _, err := from.Resolve(ctx, tag); {
	case errors.Is(err, errdef.ErrNotFound) || m.DryRun:
		return nil
	case err != nil:
		return explain("find the signature "+tag+m.inArchive(), err)
	}
	options := oras.CopyOptions{CopyGraphOptions: oras.CopyGraphOptions{MaxMetadataBytes: maxManifest}}
	if _, err := oras.Copy(ctx, checked{from}, tag, m.Registries.repository(to), tag, options); err != nil {
		return explain("copy the signature "+tag, err)
	}
	return nil
}

// verify resolves the name in the registry and compares the digest: a tag can
// be moved by others between the copy and its use.
func (m Mirror) verify(ctx context.Context, to registry.Reference, made Copied) error {
	there, err := m.Registries.repository(to).Resolve(ctx, to.Reference)
	if err != nil {
		return explain("resolve at "+to.Host()+": "+made.To, err)
	}
	if there.Digest.String() != made.Digest {
		return fmt.Errorf("%s has the digest %s, and the copy has %s: another client writes to this repository", made.To, there.Digest, made.Digest)
	}
	return nil
}

// source returns where an image comes from, and its name there.
func (m Mirror) source(ctx context.Context, reference string) (oras.ReadOnlyTarget, string, error) {
	parsed, err := parse(reference)
	if err != nil {
		return nil, "", err
	}
	if m.From == "" {
		return m.Registries.repository(parsed), parsed.Reference, nil
	}
	archive, err := oci.NewFromTar(ctx, m.From)
	if err != nil {
		return nil, "", fmt.Errorf("%s is no OCI archive: make image writes one: %w", m.From, err)
	}
	// Tools name an image in an archive by its reference, by repository and
	// tag, or by the tag alone.
	for _, name := range []string{reference, parsed.Repository + ":" + parsed.Reference, parsed.Reference} {
		if _, err := archive.Resolve(ctx, name); err == nil {
			return archive, name, nil
		}
	}
	// The caller's Resolve fails for this name and reports the archive.
	return archive, parsed.Reference, nil
}

// inArchive describes the archive for errors.
func (m Mirror) inArchive() string {
	if m.From == "" {
		return ""
	}
	return " in the archive " + m.From
}

// explain turns an error of a registry into one that names the next step.
func explain(doing string, err error) error {
	if response, ok := errors.AsType[*errcode.ErrorResponse](err); ok {
		switch response.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden:
			return fmt.Errorf("%s: the registry %s refuses: give credentials with --auth-file, in the format of Docker's config.json", doing, response.URL.Host)
		case http.StatusNotFound:
			return fmt.Errorf("%s: there is no such image at %s", doing, response.URL.Host)
		}
	}
	if errors.Is(err, errdef.ErrNotFound) {
		return fmt.Errorf("%s: there is no such image", doing)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
