// A painted picture that keyboard, pointer and screen reader reach: canvas, cursor text, tooltip, live region.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Surface } from "./painter";

export interface Point {
  x: number;
  y: number;
}

export interface CanvasProps {
  /** A sentence that says what the picture shows. */
  label: string;
  /** What the keys do; read out when the picture gets the focus. */
  keys: string;
  height: number;
  /** Called when it changes, and when the size does: keep it the same while the picture is the same. */
  paint: (surface: Surface) => void;
  /** What the cursor is on; read out, and shown beside the pointer unless there is a `tooltip`. */
  said: string;
  tooltip?: ComponentChildren;
  /** Where the tooltip is; null hides it. */
  at: Point | null;
  width?: (width: number) => void;
  onPoint?: (point: Point | null) => void;
  /** Dragged from there to here; `done` with the button's release. */
  onDrag?: (from: Point, to: Point, done: boolean, shift: boolean) => void;
  onClick?: (point: Point) => void;
  /** Wheel with a modifier, or sideways: true if it was used. */
  onWheel?: (event: WheelEvent, point: Point) => boolean;
  onKey?: (event: KeyboardEvent) => boolean;
  id?: string;
  /** Laid over the picture: cursor lines, a brush. */
  children?: ComponentChildren;
}

/** Movement below this is a click. */
const CLICK = 4;

export function Canvas(props: CanvasProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const pressed = useRef<Point | null>(null);
  const [width, setWidth] = useState(0);
  const { height, paint } = props;

  useLayoutEffect(() => {
    const element = box.current!;
    const measure = (): void => {
      setWidth(element.clientWidth);
      props.width?.(element.clientWidth);
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  useLayoutEffect(() => {
    if (!width) return;
    paint(new Surface(canvas.current!, width, height));
  }, [width, height, paint]);

  // Preact attaches wheel as passive, which could not stop the page from scrolling.
  const wheel = useRef(props.onWheel);
  wheel.current = props.onWheel;
  useEffect(() => {
    const element = box.current!;
    const listen = (event: WheelEvent): void => {
      if (wheel.current?.(event, pointOf(event, element))) event.preventDefault();
    };
    element.addEventListener("wheel", listen, { passive: false });
    return () => element.removeEventListener("wheel", listen);
  }, []);

  const here = (event: PointerEvent): Point => pointOf(event, box.current!);
  const moved = (a: Point, b: Point): boolean => Math.hypot(a.x - b.x, a.y - b.y) > CLICK;
  const right = (props.at?.x ?? 0) > width / 2;
  return (
    <div
      ref={box}
      id={props.id}
      class="picture"
      role="application"
      aria-label={props.keys}
      tabIndex={0}
      onKeyDown={(event) => {
        if (event.altKey || event.ctrlKey || event.metaKey) return;
        if (props.onKey?.(event)) event.preventDefault();
      }}
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        pressed.current = here(event);
        event.currentTarget.setPointerCapture(event.pointerId);
      }}
      onPointerMove={(event) => {
        const point = here(event);
        if (pressed.current && moved(pressed.current, point)) props.onDrag?.(pressed.current, point, false, event.shiftKey);
        else props.onPoint?.(point);
      }}
      onPointerUp={(event) => {
        const [from, point] = [pressed.current, here(event)];
        pressed.current = null;
        if (!from) return;
        if (moved(from, point)) props.onDrag?.(from, point, true, event.shiftKey);
        else props.onClick?.(point);
      }}
      onPointerCancel={() => (pressed.current = null)}
      onPointerLeave={() => !pressed.current && props.onPoint?.(null)}
    >
      <canvas ref={canvas} role="img" aria-label={props.label} style={{ height: `${height}px` }} />
      {props.children}
      {props.at && (props.tooltip ?? props.said) ? (
        <div
          class={right ? "tooltip left" : "tooltip"}
          aria-hidden="true"
          style={{ left: `${props.at.x}px`, top: `${Math.min(props.at.y, Math.max(0, height - 24))}px` }}
        >
          {props.tooltip ?? props.said}
        </div>
      ) : null}
      <p class="unseen" aria-live="polite">
        {props.said}
      </p>
    </div>
  );
}

function pointOf(event: MouseEvent, element: HTMLElement): Point {
  const box = element.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}
