package remote

import (
	"context"
	"errors"
	"io"

	"golang.org/x/crypto/ssh"
)

// maxLFSResponse bounds what a host responds to git-lfs-authenticate.
const maxLFSResponse = 64 << 10

// LFSAuthenticate requests the server of Git LFS from the host of a repository,
// and a token for it. Only SSH has that: over HTTP both are those of the
// repository. The response is JSON, with the fields href and header.
// See https://github.com/git-lfs/git-lfs/blob/main/docs/api/authentication.md.
func (c *Client) LFSAuthenticate(ctx context.Context) ([]byte, error) {
	return c.transport.lfsAuthenticate(ctx)
}

// lfsAuthenticate is a mistake of the caller.
func (h *httpTransport) lfsAuthenticate(context.Context) ([]byte, error) {
	return nil, failf(Invalid, "it is no address of SSH")
}

// lfsAuthenticate runs the command on the host. What it prints about errors is
// for people, and not passed on: hosts print tokens with it when they debug.
func (s *sshTransport) lfsAuthenticate(ctx context.Context) (response []byte, err error) {
	err = s.withSession(ctx, func(session *ssh.Session) error {
		out, err := session.StdoutPipe()
		if err := errors.Join(err, session.Start("git-lfs-authenticate "+quote(s.path())+" download")); err != nil {
			return ConnectionFailure(ctx, err)
		}
		if response, err = io.ReadAll(io.LimitReader(out, maxLFSResponse)); err != nil {
			return ConnectionFailure(ctx, err)
		}
		if err := session.Wait(); err != nil {
			if _, failed := errors.AsType[*ssh.ExitError](err); failed {
				return failf(Denied, "the host does not run git-lfs-authenticate for this key: use the https address of the repository, or write lfs.url into .lfsconfig")
			}
			return ConnectionFailure(ctx, err)
		}
		return nil
	})
	return response, err
}
