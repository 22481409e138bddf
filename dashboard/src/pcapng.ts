// Counts the packets of a pcapng stream.

const SECTION = 0x0a0d0d0a;
const ENHANCED_PACKET = 6;
const LITTLE = 0x1a2b3c4d;
/** Maximum block size; a larger one means a damaged stream. */
const LARGEST = 1 << 24;

/** Counts packet blocks, independent of chunk boundaries. */
export class FrameCounter {
  frames = 0;
  /** Bytes up to the end of the last complete block: an interrupted stream is cut there. */
  whole = 0;
  /** Whether the stream is not pcapng. */
  isBroken = false;
  private isLittle = true;
  private rest = new Uint8Array(0);
  /** Missing bytes of the current block. */
  private skip = 0;
  private taken = 0;

  take(piece: Uint8Array): void {
    let at = 0;
    while (at < piece.length && !this.isBroken) {
      if (this.skip > 0) {
        const step = Math.min(this.skip, piece.length - at);
        this.skip -= step;
        this.taken += step;
        at += step;
        if (this.skip === 0) this.whole = this.taken;
        continue;
      }
      const missing = 12 - this.rest.length;
      const more = piece.subarray(at, at + missing);
      const head = new Uint8Array(this.rest.length + more.length);
      head.set(this.rest);
      head.set(more, this.rest.length);
      at += more.length;
      this.taken += more.length;
      this.rest = head;
      if (head.length < 12) return;
      this.block(new DataView(head.buffer));
      this.rest = new Uint8Array(0);
    }
  }

  private block(head: DataView): void {
    if (head.getUint32(0, true) === SECTION) this.isLittle = head.getUint32(8, true) === LITTLE;
    const kind = head.getUint32(0, this.isLittle);
    const length = head.getUint32(4, this.isLittle);
    if (length < 12 || length > LARGEST || length % 4 !== 0) {
      this.isBroken = true;
      return;
    }
    if (kind === ENHANCED_PACKET) this.frames += 1;
    this.skip = length - 12;
    if (this.skip === 0) this.whole = this.taken;
  }
}
