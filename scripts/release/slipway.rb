# Homebrew's formula of Slipway: brew install --formula ./slipway.rb
class Slipway < Formula
  desc "GitOps runtime and ingress controller for Kubernetes"
  homepage "https://slipway.dev"
  version "@VERSION@"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "@URL@/slipway-@VERSION@-darwin-arm64.tar.gz"
      sha256 "@SHA256:slipway-@VERSION@-darwin-arm64.tar.gz@"
    end
    on_intel do
      url "@URL@/slipway-@VERSION@-darwin-amd64.tar.gz"
      sha256 "@SHA256:slipway-@VERSION@-darwin-amd64.tar.gz@"
    end
  end

  on_linux do
    on_arm do
      url "@URL@/slipway-@VERSION@-linux-arm64.tar.gz"
      sha256 "@SHA256:slipway-@VERSION@-linux-arm64.tar.gz@"
      resource "devcluster" do
        url "@URL@/slipway-devcluster-linux-arm64.gz"
        sha256 "@SHA256:slipway-devcluster-linux-arm64.gz@"
      end
    end
    on_intel do
      url "@URL@/slipway-@VERSION@-linux-amd64.tar.gz"
      sha256 "@SHA256:slipway-@VERSION@-linux-amd64.tar.gz@"
      resource "devcluster" do
        url "@URL@/slipway-devcluster-linux-amd64.gz"
        sha256 "@SHA256:slipway-devcluster-linux-amd64.gz@"
      end
    end
  end

  def install
    bin.install "slipway"
    bash_completion.install "share/bash-completion/completions/slipway"
    zsh_completion.install "share/zsh/site-functions/_slipway"
    fish_completion.install "share/fish/vendor_completions.d/slipway.fish"
    man1.install Dir["share/man/man1/*.1"]
    return unless OS.linux?

    resource("devcluster").stage { bin.install Dir["slipway-devcluster*"].first => "slipway-devcluster" }
  end

  test do
    assert_match "@VERSION@", shell_output("#{bin}/slipway version")
  end
end
