"""The voice model in PyTorch, as the yardstick for our own step: same sizes, same data shapes, two threads.

    python benches/torch_model.py [--activation relu|gelu] [--steps 20]

A step is forward, loss, backward, clipping by the global norm and AdamW. Data is random, every
clip is full length, and durations are given: the alignment search is timed by our own program.
Prints one line of JSON.
"""

import argparse
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

MELS = 80
SYMBOLS = 100
REFERENCE_FRAMES = 128  # about 1.5 s


class Block(nn.Module):
    """Depthwise convolution, LayerNorm, FiLM, two linear layers, residual; masked twice."""

    def __init__(self, d, width, factor, style, activation, convolution):
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(width, d) / width**0.5)
        self.bias = nn.Parameter(torch.zeros(d))
        self.norm = nn.LayerNorm(d)
        self.film = nn.Linear(style, 2 * d) if style else None
        self.up = nn.Linear(d, factor * d)
        self.down = nn.Linear(factor * d, d)
        self.activation = activation
        self.convolution = convolution

    def depthwise(self, x):
        width, d = self.kernel.shape
        if self.convolution == "stock":
            weight = self.kernel.t().unsqueeze(1)
            return F.conv1d(x.transpose(1, 2), weight, self.bias, padding=width // 2, groups=d).transpose(1, 2)
        padded = F.pad(x, (0, 0, width // 2, width // 2))
        return sum(padded[:, k : k + x.shape[1]] * self.kernel[k] for k in range(width)) + self.bias

    def forward(self, x, mask, style=None):
        h = self.norm(self.depthwise(x * mask))
        if self.film is not None:
            scale, shift = self.film(style).unsqueeze(1).chunk(2, dim=-1)
            h = h * (1 + scale) + shift
        return (x + self.down(self.activation(self.up(h)))) * mask


class Voice(nn.Module):
    def __init__(self, args):
        super().__init__()
        activation = {"relu": F.relu, "gelu": F.gelu}[args.activation]
        d, dr, s = args.d, args.reference[0], args.reference[2]

        def blocks(count, d, width, factor, style):
            return nn.ModuleList(
                Block(d, width, factor, style, activation, args.convolution) for _ in range(count)
            )

        self.reference_in = nn.Linear(MELS, dr)
        self.reference = blocks(args.reference[1], dr, 5, 2, 0)
        self.reference_out = nn.Linear(2 * dr, s)
        self.embedding = nn.Embedding(SYMBOLS, d)
        self.encoder = blocks(args.encoder[0], d, 7, args.encoder[1], s)
        self.mu = nn.Linear(d, MELS)
        self.durations = blocks(2, d, 5, 1, s)
        self.duration_out = nn.Linear(d, 1)
        self.decoder_in = nn.Linear(d + 4, d)
        self.decoder = blocks(args.decoder[0], d, 9, args.decoder[1], s)
        self.norm = nn.LayerNorm(d)
        self.out = nn.Linear(d, MELS)

    def style(self, reference):
        x = self.reference_in(reference)
        mask = torch.ones_like(x[..., :1])
        for block in self.reference:
            x = block(x, mask)
        mean = x.mean(1)
        deviation = (x.var(1, correction=0) + 1e-5).sqrt()
        return torch.tanh(self.reference_out(torch.cat([mean, deviation], -1)))

    def forward(self, batch):
        style = self.style(batch["reference"])
        h = self.embedding(batch["tokens"]) * batch["token_mask"]
        for block in self.encoder:
            h = block(h, batch["token_mask"], style)
        mu = self.mu(h)
        d = h.detach()
        for block in self.durations:
            d = block(d, batch["token_mask"], style.detach())
        log_duration = self.duration_out(d).squeeze(-1)

        def at_frames(x):
            return x.gather(1, batch["token_of_frame"].unsqueeze(-1).expand(-1, -1, x.shape[-1]))

        z = self.decoder_in(torch.cat([at_frames(h), batch["place"]], -1)) * batch["frame_mask"]
        for block in self.decoder:
            z = block(z, batch["frame_mask"], style)
        return self.out(self.norm(z)), at_frames(mu), log_duration


def loss(model, batch):
    mel, mu, log_duration = model(batch)
    frames = batch["frame_mask"].sum()
    tokens = batch["token_mask"].sum()
    l1 = ((mel - batch["mel"]).abs() * batch["frame_mask"]).sum() / (frames * MELS)
    prior = ((mu - batch["mel"]).square() * batch["frame_mask"]).sum() / (frames * MELS)
    duration_error = (log_duration - batch["duration"].log()).square() * batch["token_mask"].squeeze(-1)
    return l1 + 0.5 * prior + 0.3 * duration_error.sum() / tokens


def random_batch(clips, frames, tokens):
    frame = torch.arange(frames)
    token_of_frame = frame * tokens // frames
    duration = torch.bincount(token_of_frame, minlength=tokens)
    begin = duration.cumsum(0) - duration
    since = (frame - begin[token_of_frame]).float()
    own = duration[token_of_frame].float()
    f = (since + 0.5) / own
    place = torch.stack([f, 1 - f, 0.5 * own.log(), since.clamp(max=20) / 10], -1)
    return {
        "tokens": torch.randint(1, SYMBOLS, (clips, tokens)),
        "token_mask": torch.ones(clips, tokens, 1),
        "mel": torch.randn(clips, frames, MELS),
        "frame_mask": torch.ones(clips, frames, 1),
        "token_of_frame": token_of_frame.expand(clips, -1).contiguous(),
        "duration": duration.float().expand(clips, -1).contiguous(),
        "place": place.expand(clips, -1, -1).contiguous(),
        "reference": torch.randn(clips, REFERENCE_FRAMES, MELS),
    }


def pair(text):
    count, factor = text.split("x")
    return int(count), int(factor)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--activation", choices=["relu", "gelu"], default="relu")
    parser.add_argument("--convolution", choices=["shifted", "stock"], default="stock")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--clips", type=int, default=8)
    parser.add_argument("--frames", type=int, default=560)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--d", type=int, default=128)
    parser.add_argument("--encoder", type=pair, default=(4, 2), metavar="BLOCKSxM")
    parser.add_argument("--decoder", type=pair, default=(6, 3), metavar="BLOCKSxM")
    parser.add_argument("--reference", type=int, nargs=3, default=(96, 3, 96), metavar=("DR", "BLOCKS", "S"))
    return parser.parse_args()


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = Voice(args)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.98), weight_decay=1e-4)
    batch = random_batch(args.clips, args.frames, args.tokens)

    def step():
        optimizer.zero_grad(set_to_none=True)
        value = loss(model, batch)
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return value.item()

    first = step()
    for _ in range(args.warm_up):
        step()
    times = []
    for _ in range(args.steps):
        begin = time.perf_counter()
        last = step()
        times.append(1000 * (time.perf_counter() - begin))
    frames = args.clips * args.frames
    best, median = min(times), statistics.median(times)
    print(
        json.dumps(
            {
                "torch": torch.__version__,
                "threads": args.threads,
                "activation": args.activation,
                "convolution": args.convolution,
                "parameters": sum(p.numel() for p in model.parameters()),
                "shape": [args.clips, args.frames, args.tokens],
                "steps": args.steps,
                "best_ms": round(best, 2),
                "median_ms": round(median, 2),
                "best_frames_per_s": round(1000 * frames / best),
                "median_frames_per_s": round(1000 * frames / median),
                "loss_first": round(first, 4),
                "loss_last": round(last, 4),
            }
        )
    )


if __name__ == "__main__":
    main()
