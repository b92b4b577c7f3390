// Numbers as text. Absent is "—" everywhere; a unit is one of UCUM's, as the metric has it.
export const ABSENT = "—";
type Maybe = number | null | undefined;

const trimmed = (value: number, digits: number): string => {
  const text = value.toPrecision(digits);
  return text.includes("e") ? String(Number(text)) : text.includes(".") ? text.replace(/\.?0+$/, "") : text;
};

/** Three or four figures that count: 0.4312, 12.5, 1,204; tiny and huge ones as 1.2e-7. */
export function number(value: Maybe, digits = 4): string {
  if (value === null || value === undefined) return ABSENT;
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+Inf" : "−Inf";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return minus(value.toExponential(Math.max(0, digits - 1)).replace(/\.?0*e\+?/, "e"));
  if (size >= 1000) {
    const fraction = Math.max(0, digits - Math.floor(Math.log10(size)) - 1);
    return minus(value.toLocaleString("en-US", { maximumFractionDigits: fraction }));
  }
  return minus(trimmed(value, digits));
}
const minus = (text: string): string => text.replace(/^-/, "−");

/** 340 µs, 1.2 s, 3 min 20 s, 2 h 05 min, 3 d 4 h. */
export function seconds(value: Maybe, digits = 3): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return number(value);
  const size = Math.abs(value);
  if (size === 0) return "0 s";
  if (size < 1e-3) return `${minus(trimmed(value * 1e6, digits))} µs`;
  if (size < 1) return `${minus(trimmed(value * 1e3, digits))} ms`;
  if (size < 99.5) return `${minus(trimmed(value, digits))} s`;
  const sign = value < 0 ? "−" : "";
  const whole = Math.round(size);
  const [d, h, m, s] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60, whole % 60];
  if (d) return `${sign}${d} d${h ? ` ${h} h` : ""}`;
  if (h) return `${sign}${h} h${m ? ` ${String(m).padStart(2, "0")} min` : ""}`;
  return `${sign}${m} min${s ? ` ${String(s).padStart(2, "0")} s` : ""}`;
}

/** Binary: 1.5 GiB. */
export function bytes(value: Maybe): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return number(value);
  const names = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let size = value;
  let index = 0;
  while (Math.abs(size) >= 1024 && index < names.length - 1) {
    size /= 1024;
    index += 1;
  }
  return `${minus(trimmed(size, 3))} ${names[index] ?? ""}`;
}

/** A fraction as percent: 0.123 is 12.3 %. */
export const share = (value: Maybe): string =>
  value === null || value === undefined || !Number.isFinite(value) ? number(value) : `${number(value * 100, 3)} %`;

/** Counts and tokens: 950, 12.4k, 3.1M. */
export function count(value: Maybe): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return number(value);
  const size = Math.abs(value);
  if (size < 10_000) return minus(Number.isInteger(value) ? value.toLocaleString("en-US") : trimmed(value, 4));
  for (const [limit, name] of [[1e6, "k"], [1e9, "M"], [1e12, "G"], [Infinity, "T"]] as const) {
    if (size < limit) return `${minus(trimmed(value / (Math.min(limit, 1e15) / 1000), 3))}${name}`;
  }
  return number(value);
}
export const tokens = count;

const SUFFIX: Record<string, string> = {
  "": "", "{nat}": "nat", W: "W", J: "J", Cel: "°C", Hz: "Hz", "By/s": "B/s", "{token}/s": "tokens/s", "{token}/J": "tokens/J",
};

/** What stands beside an axis or after a number: "s", "tokens", "%"; "" for none. */
export function unitName(unit: string): string {
  if (unit === "1") return "%";
  if (unit === "By") return "bytes";
  if (unit in SUFFIX) return SUFFIX[unit] ?? "";
  return unit.replace(/\{(\w+)\}/g, (_, name: string) => (name.endsWith("s") ? name : `${name}s`));
}

/** A value with its unit, for tooltips and tables. */
export function format(value: Maybe, unit = ""): string {
  if (value === null || value === undefined) return ABSENT;
  if (unit === "s") return seconds(value);
  if (unit === "ms") return seconds(value / 1000);
  if (unit === "By") return bytes(value);
  if (unit === "By/s") return `${bytes(value)}/s`;
  if (unit === "1") return share(value);
  const text = unit.startsWith("{") && unit !== "{nat}" ? count(value) : number(value);
  const name = unitName(unit);
  return name ? `${text} ${name}` : text;
}

/** A value as an axis writes it: short, the unit only where it is part of the number. */
export function tick(value: number, unit = ""): string {
  if (unit === "s") return seconds(value, 3);
  if (unit === "By" || unit === "By/s") return bytes(value);
  if (unit === "1") return `${number(value * 100, 3)}%`;
  if (unit.startsWith("{") && unit !== "{nat}") return count(value);
  return Math.abs(value) >= 10_000 ? count(value) : number(value, 3);
}

const two = (value: number): string => String(value).padStart(2, "0");

/** 14:03:21, in the reader's time zone; ms since the epoch. */
export function clock(time: Maybe, millis = false): string {
  if (time === null || time === undefined) return ABSENT;
  const at = new Date(time);
  const text = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return millis ? `${text}.${String(at.getMilliseconds()).padStart(3, "0")}` : text;
}

/** 2026-12-01 14:03. */
export function date(time: Maybe): string {
  if (time === null || time === undefined) return ABSENT;
  const at = new Date(time);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** "4 s ago"; a clock ahead of ours is said, not hidden. */
export function ago(time: Maybe, from = Date.now()): string {
  if (time === null || time === undefined) return ABSENT;
  const past = Math.round((from - time) / 1000);
  if (past < -2) return `${seconds(-past)} ahead of this clock`;
  return `${seconds(Math.max(0, past))} ago`;
}

/** How a value on an x axis is written. */
export function xText(x: number, kind: "step" | "time" | "elapsed"): string {
  if (kind === "time") return clock(x);
  return kind === "elapsed" ? seconds(x) : `step ${number(x)}`;
}
