package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/gitops/source/remote"
)

// lfsType is the content type of the API of Git LFS.
const lfsType = "application/vnd.git-lfs+json"

// maxBatchBytes bounds the response to a request for one object.
const maxBatchBytes = 64 << 10

// resolveObject is a file that Git LFS keeps. It is pinned by its digest, so that
// one that is on the disk needs no request.
func (c *charts) resolveObject(ctx context.Context, of project.Admitted) (*Resolved, error) {
	name, object := of.Address().String(), of.Object()
	if err := c.checkObject(of); err != nil {
		return nil, toError(err, name)
	}
	key := c.sources.keyOf(of)
	wanted := archive{key.folder(), object.OID}
	fetch := func(ctx context.Context) (archive, error) { return wanted, c.fetchObject(ctx, key, of, wanted) }
	// What is damaged on the disk is removed, and fetched once more.
	for range 2 {
		if !c.cache.has(projectOf(ctx), wanted) {
			if _, err := doOnce(ctx, c, "object "+wanted.name(), name, fetch); err != nil {
				return nil, toError(err, name)
			}
		}
		store, err := c.cache.object(wanted)
		if err == nil {
			return &Resolved{Revision: object.OID, Store: store}, nil
		}
		if !errors.Is(err, errDamaged) {
			return nil, toError(err, name)
		}
	}
	return nil, toError(errDamaged, name)
}

// checkObject refuses what is not to be fetched. Argo CD fetches files of Git LFS
// only if the Secret of their repository has enableLfs. That it has not is Denied,
// which is tried again when Secrets change.
func (c *charts) checkObject(of project.Admitted) error {
	object := of.Object()
	opened, _ := c.sources.options.Credentials.For(object.Repository, of.Project())
	switch {
	case !opened.EnableLFS:
		return errorf(Denied, object.Repository.String(), "its content is not fetched, because no Secret of the repository has enableLfs: add enableLfs: \"true\" to one "+
			"with the label argocd.argoproj.io/secret-type: repository, store the file in Git itself, or exclude it from the render")
	case !isDigest(object.OID):
		return errorf(Invalid, "", "the pointer has no proper digest")
	case object.Size > maxFileBytes:
		return errorf(Refused, "", "it has %d bytes, and a file of Git LFS may have %d: exclude it from the render", object.Size, maxFileBytes)
	}
	return nil
}

// lfsAction is where something is requested, and with what: the API of a
// repository, or the content of an object.
type lfsAction struct {
	Href   string            `json:"href"`
	Header map[string]string `json:"header"`
}

// lfsObject is an object in the response of the API.
type lfsObject struct {
	OID     string `json:"oid"`
	Size    int64  `json:"size"`
	Actions struct {
		Download *lfsAction `json:"download"`
	} `json:"actions"`
	Error *struct {
		Code int `json:"code"`
	} `json:"error"`
}

// fetchObject brings an object to the disk: the API of the server names the
// address of the content.
func (c *charts) fetchObject(ctx context.Context, key cacheKey, of project.Admitted, wanted archive) error {
	return c.sources.exchange(ctx, "lfs", of.Address().String(), func(ctx context.Context) (int64, error) {
		api, err := c.lfsAPI(ctx, key, of)
		if err != nil {
			return 0, err
		}
		api.Href = strings.TrimSuffix(api.Href, "/") + "/objects/batch"
		found, err := c.findObject(ctx, key, of, api)
		if err != nil {
			return 0, err
		}
		request, err := found.request(ctx, of, http.MethodGet, nil)
		if err != nil {
			return 0, err
		}
		return c.send(ctx, chartKey{cacheKey: key}, request, func(response *http.Response) (int64, error) {
			counted := &countingReader{from: response.Body}
			_, err := c.cache.put(projectOf(ctx), counted, wanted, of.Object().Size)
			return counted.count, err
		})
	})
}

// lfsAPI is the API of the server: that of .lfsconfig, or that of the repository.
// Over SSH the host names it, with a token.
func (c *charts) lfsAPI(ctx context.Context, key cacheKey, of project.Admitted) (*lfsAction, error) {
	at := of.Address()
	if at.Scheme == address.SSH {
		return c.lfsAuthenticate(ctx, key, at)
	}
	api := at.URL()
	if at == of.Object().Repository {
		// As Git LFS does: the folder of a repository ends with .git.
		api.Path, api.RawPath = strings.TrimSuffix(api.Path, ".git")+".git/info/lfs", ""
	}
	return &lfsAction{Href: api.String()}, nil
}

// lfsAuthenticate runs git-lfs-authenticate on the host of a repository.
func (c *charts) lfsAuthenticate(ctx context.Context, key cacheKey, at address.Address) (*lfsAction, error) {
	access, err := c.sources.access(ctx, key, at.HostPort())
	if err != nil {
		return nil, err
	}
	client, err := remote.NewClient(at, access, c.sources.options.Limits.Refs)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	response, err := client.LFSAuthenticate(ctx)
	if err != nil {
		return nil, err
	}
	api := &lfsAction{}
	if json.Unmarshal(response, api) != nil || api.Href == "" {
		return nil, errorf(Invalid, "", "the host does not name its server of Git LFS (git-lfs-authenticate): use the https address of the repository, or write lfs.url into .lfsconfig")
	}
	return api, nil
}

// findObject requests the address of an object from the API.
func (c *charts) findObject(ctx context.Context, key cacheKey, of project.Admitted, api *lfsAction) (*lfsAction, error) {
	type object struct {
		OID  string `json:"oid"`
		Size int64  `json:"size"`
	}
	wanted := object{of.Object().OID, of.Object().Size}
	body, err := json.Marshal(map[string]any{"operation": "download", "transfers": []string{"basic"}, "hash_algo": "sha256", "objects": []object{wanted}})
	if err != nil {
		return nil, err
	}
	request, err := api.request(ctx, of, http.MethodPost, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", lfsType)
	request.Header.Set("Content-Type", lfsType)
	var found struct {
		Transfer string      `json:"transfer"`
		Objects  []lfsObject `json:"objects"`
	}
	_, err = c.send(ctx, chartKey{cacheKey: key}, request, func(response *http.Response) (int64, error) {
		text, err := io.ReadAll(io.LimitReader(response.Body, maxBatchBytes))
		if err == nil && json.Unmarshal(text, &found) != nil {
			err = errorf(Unreachable, "", "its response is not that of a server of Git LFS")
		}
		return int64(len(text)), err
	})
	if err != nil {
		return nil, err
	}
	if len(found.Objects) != 1 || found.Objects[0].OID != wanted.OID || found.Transfer != "" && found.Transfer != "basic" {
		return nil, errorf(Unreachable, "", "the response of its server of Git LFS is not about the object that was requested")
	}
	return found.Objects[0].download()
}

// download is where the content of an object is. Servers report errors of single
// objects with codes of HTTP.
func (o *lfsObject) download() (*lfsAction, error) {
	switch {
	case o.Error == nil && o.Actions.Download != nil:
		return o.Actions.Download, nil
	case o.Error != nil && (o.Error.Code == http.StatusForbidden || o.Error.Code == http.StatusUnauthorized):
		return nil, errorf(Denied, "", "its server of Git LFS does not give the object %s: check what the credentials may read", o.OID)
	case o.Error != nil && o.Error.Code >= http.StatusInternalServerError:
		return nil, errorf(Unreachable, "", "its server of Git LFS responds %d for the object %s", o.Error.Code, o.OID)
	}
	return nil, errorf(NotFound, "", "its server of Git LFS does not have the object %s: push it with \"git lfs push --all\"", o.OID)
}

// request makes a request of what a server named. Its address passes the gate of
// the project like that of an archive in an index, and does not lead away from
// TLS: a token may be among the header fields.
func (a *lfsAction) request(ctx context.Context, of project.Admitted, method string, body io.Reader) (*http.Request, error) {
	at, err := url.Parse(a.Href)
	if err != nil || at.Host == "" || at.Scheme != address.HTTPS && at.Scheme != address.HTTP {
		return nil, errorf(Invalid, "", "its server of Git LFS names no proper address")
	}
	if at.Scheme == address.HTTP && of.Address().Scheme != address.HTTP {
		return nil, errorf(Denied, "", "its server of Git LFS leads to a connection that others can read: it has to be https")
	}
	at.User = nil
	if err := of.CheckArchive(at); err != nil {
		return nil, errorf(Invalid, "", "its server of Git LFS: %v", err)
	}
	request, err := http.NewRequestWithContext(ctx, method, at.String(), body)
	if err != nil {
		return nil, errorf(Invalid, "", "its server of Git LFS names no proper address")
	}
	for name, value := range a.Header {
		request.Header.Set(name, value)
	}
	return request, nil
}
